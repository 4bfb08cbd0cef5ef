// The card of a link: how a quoted result was measured, what a term means, what a source is. Plain script, no
// library; works from file://. Hover, focus and tap open it; it closes on leaving, on Escape and on a tap
// elsewhere. Without it the titles of results and sources say the same.
(() => {
  const GAP = 6;
  const MARGIN = 8;
  const SOON = 150;
  const LATE = 250; // pixels, milliseconds
  let link = null;
  let card = null; // the open one
  let timer = 0;
  let point = null; // point: where the mouse is, for numbers that are broken into two lines
  let focused = false; // it was opened by the keyboard, or by a tap, and stays while the mouse leaves
  let pressed = null; // the link that a finger touched, if its card was closed then
  let dismissed = null; // the link that Escape closed while the mouse was on it

  const has = (e) => e instanceof Node && (link.contains(e) || card.contains(e));
  const said = (e) => (e instanceof Element ? e.closest('a[data-card]') : null);

  function close() {
    clearTimeout(timer);
    if (!card) return;
    const gone = card;
    link.removeAttribute('aria-describedby');
    link = card = null; // first, for a focus in the card leaves it now
    gone.remove();
  }

  // A page has the text of a term or a source once, at the first link to it.
  function content(a) {
    const first = [...document.querySelectorAll('a[data-card]')].find((e) => e.href === a.href);
    const html = a.dataset.card || first.dataset.card;
    return [...new DOMParser().parseFromString(html, 'text/html').body.childNodes];
  }

  // Below the number if there is room, else where there is more; never outside the window.
  function place() {
    const { clientWidth: width, clientHeight: height } = document.documentElement;
    const rects = [...link.getClientRects()];
    const at =
      rects.find(
        (r) =>
          point && point.y >= r.top && point.y <= r.bottom && point.x >= r.left - 1 && point.x <= r.right + 1,
      ) || rects[0];
    const away = !at || at.bottom < 0 || at.top > height;
    if (away && !focused) {
      close();
      return;
    }
    // By Tab a number is reached before the page has scrolled to it: its card waits until it is there.
    card.style.visibility = away ? 'hidden' : '';
    if (away) return;
    card.style.maxHeight = '';
    const wide = card.offsetWidth;
    const tall = card.offsetHeight + GAP + MARGIN;
    const below = height - at.bottom;
    const above = below < tall && at.top > below;
    const room = (above ? at.top : below) - GAP - MARGIN;
    card.style.maxHeight = `${Math.max(60, room)}px`;
    card.style.left = `${Math.max(MARGIN, Math.min(at.left, width - wide - MARGIN))}px`;
    card.style.top = above
      ? `${Math.max(MARGIN, at.top - GAP - card.offsetHeight)}px`
      : `${at.bottom + GAP}px`;
  }

  function open(a, stays) {
    clearTimeout(timer);
    focused = stays || (a === link && focused);
    if (a === link) return;
    close();
    link = a;
    // A part of the page with a name, right behind the link: Tab moves into it. What it says describes the
    // link; its last line leads to where that is said.
    card = document.createElement('span');
    card.className = 'd2l-card';
    card.tabIndex = -1; // a press on it does not take the focus away
    card.setAttribute('role', 'group');
    card.setAttribute('aria-label', a.matches('.d2l-said') ? 'About this result' : `About ${a.textContent}`);
    const text = document.createElement('span');
    const parts = content(a);
    const links = parts.pop();
    text.id = 'd2l-card-text';
    text.append(...parts);
    card.append(text, links);
    a.after(card);
    a.setAttribute('aria-describedby', text.id);
    place();
  }

  const later = (f, ms) => {
    clearTimeout(timer);
    timer = setTimeout(f, ms);
  };

  function listen() {
    const on = (name, f, options) => document.addEventListener(name, f, options);
    // Else there are two.
    document.querySelectorAll('a[data-card]').forEach((a) => a.removeAttribute('title'));
    on('pointerover', (event) => {
      if (event.pointerType === 'touch') return;
      const a = said(event.target);
      if (card && has(event.target)) {
        clearTimeout(timer);
        return;
      }
      if (a !== dismissed) dismissed = null;
      if (a && !dismissed) {
        point = { x: event.clientX, y: event.clientY };
        later(() => open(a, false), SOON);
      } else if (card && !focused) {
        later(close, LATE);
      } else if (!card) {
        clearTimeout(timer);
      }
    });
    document.documentElement.addEventListener('pointerleave', () => {
      if (!focused) later(close, LATE);
    });
    on('focusin', (event) => {
      const a = said(event.target);
      if (a && a.matches(':focus-visible')) {
        point = null;
        open(a, true);
      } else if (card && !has(event.target)) {
        close();
      }
    });
    on('focusout', (event) => {
      if (card && focused && has(event.target) && !has(event.relatedTarget)) close();
    });
    on('keydown', (event) => {
      pressed = null;
      if (event.key !== 'Escape') return;
      dismissed = link;
      if (card && card.contains(document.activeElement)) link.focus(); // it would be lost with the card
      close();
    });
    on('pointerdown', (event) => {
      const a = said(event.target);
      if (card && !has(event.target)) close();
      pressed = a && a !== link && event.pointerType !== 'mouse' ? a : null;
    });
    // The first tap opens the card; a second one, a click and the Enter key follow the link.
    on('click', (event) => {
      const a = said(event.target);
      if (a && a === pressed) {
        event.preventDefault();
        point = { x: event.clientX, y: event.clientY };
        open(a, true);
      } else if (a || (card && card.contains(event.target) && event.target.closest('a'))) {
        close();
      }
      pressed = null;
      const to = event.target instanceof Element && event.target.closest('a[href]');
      // There is no hashchange then.
      if (to && to.hash && to.hash === location.hash && !event.defaultPrevented) setTimeout(reveal);
    });
    for (const name of ['scroll', 'resize']) {
      window.addEventListener(
        name,
        (event) => {
          if (card && !has(event.target)) place();
        },
        { capture: true, passive: true },
      );
    }
    window.addEventListener('pagehide', close);
    window.addEventListener('hashchange', reveal);
    reveal();
  }

  // A link to a folded result opens it.
  function reveal() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return;
    }
    if (!target) return;
    let opened = false;
    for (let e = target; e; e = e.parentElement) {
      if (e.tagName === 'DETAILS' && !e.open) opened = e.open = true;
    }
    if (opened || target.matches('.d2l-claim')) target.scrollIntoView();
  }

  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', listen);
  else listen();
})();

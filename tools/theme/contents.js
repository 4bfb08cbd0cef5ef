// The section in sight in the contents of the page, the menu of downloads, and the way back to the top. The
// theme has these from Bootstrap, a library of 80 KB of which the book uses nothing else.
function markSections() {
  const links = [...document.querySelectorAll('.bd-toc-nav a[href^="#"]')];
  const sections = links.map((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))));
  return () => {
    // The section that one reads: the last that begins in the upper part of the window or above it.
    let current = -1;
    sections.forEach((section, i) => {
      if (section && section.getBoundingClientRect().top < 0.4 * innerHeight) current = i;
    });
    for (const a of links) {
      a.classList.remove('active');
      a.removeAttribute('aria-current');
      a.parentElement.classList.remove('active');
    }
    if (current < 0) return;
    links[current].classList.add('active');
    links[current].setAttribute('aria-current', 'true');
    // An entry that has entries below shows them while one of them is current.
    for (let entry = links[current].closest('li'); entry; entry = entry.parentElement.closest('.bd-toc-nav li'))
      entry.classList.add('active');
  };
}

function makeMenu(button) {
  const whole = button.parentElement;
  const open = (wanted) => {
    button.classList.toggle('show', wanted);        // the theme shows the menu after such a button
    button.setAttribute('aria-expanded', String(wanted));
  };
  button.addEventListener('click', () => open(button.getAttribute('aria-expanded') !== 'true'));
  document.addEventListener('click', (e) => whole.contains(e.target) || open(false));
  whole.addEventListener('focusout', (e) => {
    if (e.relatedTarget && !whole.contains(e.relatedTarget)) open(false);
  });
  whole.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape' || button.getAttribute('aria-expanded') !== 'true') return;
    open(false);
    button.focus();
  });
}

document.addEventListener('DOMContentLoaded', () => {
  document.querySelectorAll('[data-bs-toggle="dropdown"]').forEach(makeMenu);
  const mark = markSections();
  const back = document.getElementById('pst-back-to-top');
  back?.addEventListener('click', () => scrollTo(0, 0));
  let before = scrollY;
  const scrolled = () => {
    mark();
    // It is offered to a reader who goes up, and is some way down.
    if (back) back.style.display = scrollY < before && scrollY > innerHeight / 2 ? 'block' : 'none';
    before = scrollY;
  };
  addEventListener('scroll', scrolled, { passive: true });
  addEventListener('resize', mark);
  mark();
});

// Code that was folded away can be scrolled by keyboard too; the theme sees to what is open from the start.
document.addEventListener(
  'toggle',
  (e) =>
    e.target.querySelectorAll('pre').forEach((p) => {
      if (p.scrollWidth > p.clientWidth) p.tabIndex = 0;
    }),
  true,
);
// So can a table that is wider than its place; the theme leaves these out.
const sizes = new ResizeObserver((changed) =>
  changed.forEach(({ target }) => {
    target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  }),
);
addEventListener('load', () =>
  document.querySelectorAll('.pst-scrollable-table-container').forEach((t) => sizes.observe(t)),
);
// Figures open in a view of their own: wheel, pinch, drag, the keys + - 0 and the arrows. Plain script, no
// library.
(() => {
  const ready = (f) =>
    document.readyState === 'loading' ? document.addEventListener('DOMContentLoaded', f) : f();
  ready(() => {
    const figures = document.querySelectorAll('.bd-article img[src$=".svg"]:not(.sd-card-img-bottom)');
    if (!figures.length || !window.HTMLDialogElement) return;
    const view = document.createElement('dialog');
    view.className = 'd2l-zoom';
    view.setAttribute('aria-label', 'Figure, enlarged');
    view.innerHTML =
      '<div class="d2l-zoom-bar"><button data-by="1.5" aria-label="Closer">+</button>'
      + '<button data-by="0.667" aria-label="Farther">−</button><button data-by="0">Whole figure</button>'
      + '<button data-close>Close</button></div><div class="d2l-zoom-room"><img alt=""></div>';
    document.body.append(view);
    const room = view.querySelector('.d2l-zoom-room');
    const img = view.querySelector('img');
    let scale = 1;
    let x = 0;
    let y = 0;
    const fingers = new Map();
    const show = () => {
      img.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
    };
    const whole = () => {
      scale = 1;
      x = 0;
      y = 0;
      show();
    };
    const zoom = (by, px, py) => {
      // keep the point (px, py) of the room where it is
      const to = Math.min(20, Math.max(1, scale * by));
      x = px - ((px - x) * to) / scale;
      y = py - ((py - y) * to) / scale;
      scale = to;
      if (scale === 1) whole();
      else show();
    };
    const middle = () => [room.clientWidth / 2, room.clientHeight / 2];
    const inside = (e) => {
      const r = room.getBoundingClientRect();
      return [e.clientX - r.left, e.clientY - r.top];
    };
    view.addEventListener('click', (e) => {
      if (e.target.dataset.by) {
        const by = +e.target.dataset.by;
        if (by) zoom(by, ...middle());
        else whole();
      }
      if ('close' in e.target.dataset) view.close();
    });
    view.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
      if (step && scale > 1) {
        x += step[0];
        y += step[1];
        show();
      } else if (e.key === '+' || e.key === '=') {
        zoom(1.5, ...middle());
      } else if (e.key === '-') {
        zoom(1 / 1.5, ...middle());
      } else if (e.key === '0') {
        whole();
      } else {
        return;
      }
      e.preventDefault();
      e.stopPropagation();
    });
    room.addEventListener(
      'wheel',
      (e) => {
        e.preventDefault();
        zoom(e.deltaY < 0 ? 1.2 : 1 / 1.2, ...inside(e));
      },
      { passive: false },
    );
    room.addEventListener('pointerdown', (e) => {
      room.setPointerCapture(e.pointerId);
      fingers.set(e.pointerId, inside(e));
    });
    room.addEventListener('pointermove', (e) => {
      const before = fingers.get(e.pointerId);
      if (!before) return;
      const now = inside(e);
      const other = [...fingers].find(([id]) => id !== e.pointerId)?.[1];
      if (other) {
        const gap = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
        zoom(gap(now) / gap(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      } else if (scale > 1) {
        x += now[0] - before[0];
        y += now[1] - before[1];
        show();
      }
      fingers.set(e.pointerId, now);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      room.addEventListener(end, (e) => fingers.delete(e.pointerId));
    }
    for (const f of figures) {
      const open = () => {
        img.src = f.src;
        img.alt = f.alt;
        whole();
        view.showModal();
      };
      f.tabIndex = 0;
      f.setAttribute('role', 'button');
      f.title = 'Enlarge';
      f.addEventListener('click', (e) => {
        e.preventDefault();
        open();
      });
      f.addEventListener('keydown', (e) => {
        if (e.key === 'Enter') open();
      });
    }
  });
})();

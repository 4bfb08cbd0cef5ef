// One slide at a time: → and ← (or space, page keys, a click; on the left third it goes back), Home and End, N
// for notes.
(() => {
  const slides = [...document.querySelectorAll('section')];
  const smallest = 11; // pixels of text, of 720
  slides.forEach((slide, k) => {
    slide.dataset.number = `${k + 1} / ${slides.length}`;
    let size = 26; // what is too much for a slide is set smaller
    while (slide.scrollHeight > slide.clientHeight + 1 && size > smallest) {
      slide.style.fontSize = `${(size -= 1)}px`;
    }
  });
  const body = document.body;
  const main = document.querySelector('main');
  let at = 0;

  const steps = (slide) => [...slide.querySelectorAll('.fragment')];

  // Show a slide; coming from behind it is complete.
  function show(k, complete) {
    at = Math.max(0, Math.min(slides.length - 1, k));
    slides.forEach((slide, i) => slide.classList.toggle('now', i === at));
    for (const step of steps(slides[at])) step.classList.toggle('later', !complete);
    history.replaceState(null, '', `#${at + 1}`);
    slides[at].focus({ preventScroll: true });
  }

  function on() {
    const next = steps(slides[at]).find((step) => step.classList.contains('later'));
    if (next) next.classList.remove('later');
    else if (at < slides.length - 1) show(at + 1, false);
  }

  function back() {
    const open = steps(slides[at]).filter((step) => !step.classList.contains('later'));
    if (open.length) open.pop().classList.add('later');
    else if (at > 0) show(at - 1, true);
  }

  const keys = {
    ArrowRight: on,
    ArrowDown: on,
    PageDown: on,
    ' ': on,
    ArrowLeft: back,
    ArrowUp: back,
    PageUp: back,
    Home: () => show(0, false),
    End: () => show(slides.length - 1, true),
    n: () => body.classList.toggle('noted'),
  };
  addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  addEventListener('click', (e) => {
    if (!String(getSelection())) (e.clientX > innerWidth / 3 ? on : back)();
  });

  function fit() {
    const scale = Math.min(innerWidth / 1280, innerHeight / 720);
    const left = (innerWidth - 1280 * scale) / 2;
    const top = (innerHeight - 720 * scale) / 2;
    main.style.transform = `translate(${left}px, ${top}px) scale(${scale})`;
  }
  addEventListener('resize', fit);
  body.classList.add('running');
  fit();
  show(Number(location.hash.slice(1) || 1) - 1, false);
  addEventListener('hashchange', () => show(Number(location.hash.slice(1) || 1) - 1, false));
})();

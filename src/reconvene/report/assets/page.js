"use strict";
for (const canvas of document.querySelectorAll(".canvas")) {
  const picture = canvas.querySelector("svg");
  const names = picture.querySelector(".names");
  const width = picture.width.baseVal.value;
  const height = picture.height.baseVal.value;
  const tools = canvas.parentElement.querySelector(".tools");
  let zoom = 1;

  // The names of the processes stay in view.
  const pin = () => names.setAttribute("transform", `translate(0 ${canvas.scrollTop / zoom})`);
  canvas.addEventListener("scroll", pin, { passive: true });

  const scale = (wanted) => {
    const to = Math.min(4, Math.max(0.2, wanted));
    const x = (canvas.scrollLeft + canvas.clientWidth / 2) / zoom;
    const y = (canvas.scrollTop + canvas.clientHeight / 2) / zoom;
    zoom = to;
    picture.setAttribute("width", width * zoom);
    picture.setAttribute("height", height * zoom);
    canvas.scrollLeft = x * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = y * zoom - canvas.clientHeight / 2;
    pin();
  };
  const steps = { in: () => scale(zoom * 1.25), out: () => scale(zoom / 1.25), fit: () => scale((canvas.clientWidth - 2) / width) };
  tools.classList.add("on");
  tools.addEventListener("click", (event) => steps[event.target.dataset.step]?.());

  // Dragged with the mouse; touch scrolls by itself.
  canvas.classList.add("pan");
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) {
      held = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop };
    }
  });
  window.addEventListener("pointermove", (event) => {
    if (held) {
      canvas.classList.add("held");
      canvas.scrollLeft = held.x - event.clientX;
      canvas.scrollTop = held.y - event.clientY;
    }
  });
  window.addEventListener("pointerup", () => {
    held = null;
    canvas.classList.remove("held");
  });

  // A message that is pointed at stands out, wherever it was delivered.
  const choose = (number) => {
    for (const other of picture.querySelectorAll(".chosen")) other.classList.remove("chosen");
    picture.classList.toggle("chosen", number !== undefined);
    if (number !== undefined) {
      for (const part of picture.querySelectorAll(`[data-m="${number}"]`)) part.classList.add("chosen");
    }
  };
  picture.addEventListener("pointerover", (event) => choose(event.target.closest("[data-m]")?.dataset.m));
  picture.addEventListener("pointerleave", () => choose(undefined));

  // A violation that lies further down is scrolled to.
  const offence = picture.querySelector(".marks .offence");
  if (offence) canvas.scrollTop = offence.cy.baseVal.value - canvas.clientHeight / 2;
}

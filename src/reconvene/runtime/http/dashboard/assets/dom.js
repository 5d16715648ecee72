// Creates elements and updates them in place when the data changes, so that focus and transitions survive.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

export function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Sets the property, since the page's content security policy refuses style attributes.
export function style(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

// Makes the children of `parent` one element for each item, in order. Items with the same key keep their element.
export function keep(parent, items, key, create, update) {
  const there = (parent.kept ??= new Map());
  const wanted = new Set();
  let before = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    wanted.add(name);
    let element = there.get(name);
    if (!element) {
      element = create(item);
      there.set(name, element);
    }
    update(element, item);
    if (element === before) before = before.nextSibling;
    else parent.insertBefore(element, before);
  }
  for (const [name, element] of there) {
    if (!wanted.has(name)) {
      element.remove();
      there.delete(name);
    }
  }
}

// Sizes a canvas in the screen's resolution; returns its context, scaled to CSS pixels.
export function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export function tint(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

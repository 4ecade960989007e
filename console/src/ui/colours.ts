/** The value of a custom property that is a colour, as `rgb(…)` in the theme of the page: a canvas does not know `light-dark()`. */
export function pageColour(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

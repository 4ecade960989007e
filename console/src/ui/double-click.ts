/**
 * The second click of a double click would do a thing again, or press what has just appeared beneath the pointer: a button
 * that changes something takes only the first. Keys are no clicks in this sense.
 */
export function ignoreSecondClicks(): void {
  const isOfChange = (target: EventTarget | null): boolean =>
    target instanceof Element && target.closest('button.primary, button.danger') !== null;
  document.addEventListener(
    'click',
    (event) => {
      if (event.detail < 2 || !isOfChange(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );
}

/**
 * Ignores the second click of a double click on buttons that change something. It would repeat the action, or press a button
 * that has just appeared under the pointer. Keyboard activation is not affected.
 */
export function ignoreSecondClicks(): void {
  const isChangeButton = (target: EventTarget | null): boolean =>
    target instanceof Element && target.closest('button.primary, button.danger') !== null;
  document.addEventListener(
    'click',
    (event) => {
      if (event.detail < 2 || !isChangeButton(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );
}

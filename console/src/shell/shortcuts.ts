import { useEffect, useRef } from 'react';

/** Keys that are pressed one after the other and open a page. */
export const pageShortcuts: readonly { key: string; path: string; title: string }[] = [
  { key: 'h', path: '/', title: 'Home' },
  { key: 'd', path: '/devices', title: 'Devices' },
  { key: 'p', path: '/plans', title: 'Plans' },
  { key: 'c', path: '/confirmations', title: 'Confirmations' },
  { key: 'a', path: '/audit', title: 'Audit' },
];

/** Time after `g` in which the second key counts. */
const SEQUENCE_MS = 1_500;

export interface ShortcutActions {
  openPalette(): void;
  openHelp(): void;
  /** Opens a page of `pageShortcuts`. */
  openPage(path: string): void;
}

/** Letters are text where the user types, and shortcuts elsewhere; a dialog has its own keys. */
const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('dialog') !== null);

/** Ctrl-K (⌘-K) opens the palette, `?` the help, and `g` with another letter a page. */
export function useShortcuts(actions: ShortcutActions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    let sequenceAt = Number.NEGATIVE_INFINITY;
    const onKeyDown = (event: KeyboardEvent): void => {
      const { key, ctrlKey, metaKey, altKey, target } = event;
      if ((ctrlKey || metaKey) && !altKey && key.toLowerCase() === 'k') {
        event.preventDefault();
        if (document.querySelector('dialog[open]') === null) latest.current.openPalette();
        return;
      }
      if (ctrlKey || metaKey || altKey || isTyping(target) || document.querySelector('dialog[open]') !== null) return;
      const isSecond = event.timeStamp - sequenceAt < SEQUENCE_MS;
      sequenceAt = !isSecond && key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY;
      const page = isSecond ? pageShortcuts.find((one) => one.key === key) : undefined;
      if (page !== undefined) latest.current.openPage(page.path);
      else if (key === '?') latest.current.openHelp();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
}

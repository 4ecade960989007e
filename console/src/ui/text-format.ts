/** `set_brightness` → `set brightness`, `doorOpen` → `door open`. */
export const humanize = (name: string): string =>
  name.replaceAll('_', ' ').replace(/[a-z][A-Z]/g, ([before, after]) => `${before} ${after?.toLowerCase()}`);

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `1 device`, `2 devices`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString()} ${count === 1 ? noun : `${noun}s`}`;

/** `set_brightness` → `Set brightness`. */
export const sentenceCase = (name: string): string => capital(humanize(name));

export const abbreviateId = (id: string): string => `…${id.slice(-8)}`;

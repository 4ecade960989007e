/** `set_brightness` → `set brightness`, `doorOpen` → `door open`. */
export const humanize = (name: string): string =>
  name.replaceAll('_', ' ').replace(/[a-z][A-Z]/g, ([before, after]) => `${before} ${after?.toLowerCase()}`);

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `set_brightness` → `Set brightness`. */
export const sentenceCase = (name: string): string => capital(humanize(name));

import { createHash } from 'node:crypto';

export const MAX_SLUG_LENGTH = 48;

// Letters that Unicode does not decompose into a base letter and a mark.
const TRANSLITERATIONS: Record<string, string> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ı: 'i',
};

/**
 * A slug of lower-case letters, digits and single hyphens from a name in any script. If letters were lost, a short hash
 * of the name distinguishes different names. `suffix` is for the caller's next attempt if the slug is taken.
 */
export function slugFrom(name: string, suffix?: number | string): string {
  const plain = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[ßæœøłđðþı]/g, (letter) => TRANSLITERATIONS[letter] as string);
  const lost = /(?![a-z0-9])[\p{L}\p{N}]/u.test(plain) || !/[a-z0-9]/.test(plain);
  const tail = [
    ...(lost ? [createHash('sha256').update(name.normalize('NFC')).digest('hex').slice(0, 6)] : []),
    ...(suffix === undefined ? [] : [`${suffix}`]),
  ].map((part) => `-${part}`);
  const room = MAX_SLUG_LENGTH - tail.join('').length;
  const head = plain
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, room)
    .replace(/-+$/, '');
  return `${head}${tail.join('')}`.replace(/^-/, '');
}

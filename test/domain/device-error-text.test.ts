import { describe, expect, it } from 'vitest';
import { deviceErrorText } from '../../src/domain/device-error-text.ts';
import type { Json } from '../../src/domain/values.ts';

describe('the error of a device as a text', () => {
  it.each<[Json, string | null]>([
    ['the door is open', 'the door is open'],
    [{ code: 7, message: 'no bulb' }, 'no bulb'],
    [{ code: 7, note: 'no bulb' }, 'no bulb'],
    [{ code: 7 }, '{"code":7}'],
    [7, '7'],
    [['jam', 'door'], '["jam","door"]'],
    [' two\n lines ', 'two lines'],
    ['\u0000bell\u0007\u{e0041}', 'bell'],
    ['\ud800', '\ufffd'],
    [null, null],
    ['', null],
    [' \n', null],
  ])('of %j is %j', (error, text) => {
    expect(deviceErrorText(error)).toBe(text);
  });

  it('has at most 200 characters', () => {
    expect(deviceErrorText('x'.repeat(200))).toBe('x'.repeat(200));
    expect(deviceErrorText('x'.repeat(201))).toBe(`${'x'.repeat(199)}…`);
    expect(Array.from(deviceErrorText('🔒'.repeat(5_000)) ?? '')).toHaveLength(200);
  });
});

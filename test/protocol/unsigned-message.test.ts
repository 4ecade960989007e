import { describe, expect, it } from 'vitest';
import { readUnsignedMessage } from '../../src/protocol/unsigned-message.ts';

const NOW = Date.UTC(2026, 0, 1);
const read = (message: unknown, times = [NOW]) =>
  readUnsignedMessage(Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)), 'state', times);
const numbered = (more: object = {}) => ({
  message_id: 'm1',
  sequence_number: 7,
  payload: { state: { on: true } },
  ...more,
});
const content = { ok: true, value: { channel: 'state', payload: { state: { on: true } } } };

describe('an unsigned message', () => {
  it('is the payload alone', () => {
    expect(read({ state: { on: true } })).toEqual({ ok: true, numbered: null, content });
  });

  it('is a payload with a message id and a sequence number', () => {
    const expected = { ok: true, numbered: { messageId: 'm1', sequenceNumber: 7 }, content };
    expect(read(numbered())).toEqual(expected);
    expect(read(numbered({ timestamp: NOW + 299_000 }))).toEqual(expected);
    expect(read(numbered({ timestamp: NOW - 3_600_000 }), [NOW, NOW - 3_600_000])).toEqual(expected);
  });

  it('with an invalid payload has valid content only where the payload is valid', () => {
    expect(read({ state: 1 })).toMatchObject({ ok: true, numbered: null, content: { ok: false } });
    expect(read(numbered({ payload: {} }))).toMatchObject({ ok: true, content: { ok: false } });
  });

  it('whose time is more than five minutes off is refused', () => {
    expect(read(numbered({ timestamp: NOW + 301_000 }))).toEqual({
      ...{ ok: false, code: 'TIMESTAMP_SKEWED', messageId: 'm1' },
    });
  });

  it.each([
    ['no JSON', '{', null],
    ['an array', '[]', null],
    ['a repeated member', '{"state":{},"state":{}}', null],
    ['no message id', numbered({ message_id: undefined }), null],
    ['an empty message id', numbered({ message_id: '' }), null],
    ['a message id with a bar', numbered({ message_id: 'a|b' }), null],
    ['no sequence number', numbered({ sequence_number: undefined }), 'm1'],
    ['a sequence number above 2^52', numbered({ sequence_number: 2 ** 52 + 1 }), 'm1'],
    ['a fraction as sequence number', numbered({ sequence_number: 1.5 }), 'm1'],
    ['a text as timestamp', numbered({ timestamp: 'now' }), 'm1'],
    ['a payload that is no object', numbered({ payload: [] }), 'm1'],
    ['a signature', numbered({ signature: 'x' }), 'm1'],
  ])('with %s is malformed', (_, message, messageId) => {
    expect(read(message)).toEqual({ ok: false, code: 'MALFORMED', messageId });
  });
});

import { describe, expect, it } from 'vitest';
import { RefusedError, UnreachableError } from '../../src/cli/errors.ts';
import { fetchShownNames } from '../../src/cli/shown-names.ts';

type Client = Parameters<typeof fetchShownNames>[0];

const clientOf = (request: () => Promise<unknown>, json = false): Client => ({ api: { request } as never, json });
const listed = async () => ({
  body: {
    devices: [
      { id: '1', name: 'Desk lamp' },
      { id: '2', name: 'Lamp' },
      { id: '3', name: 'Lamp' },
      { id: '4', name: null },
    ],
    next_cursor: null,
  },
});
const failing = (error: Error) => () => Promise.reject(error);

describe('the names of devices in a table', () => {
  it('are ids where a name is missing, unknown or not the only one', async () => {
    const nameOf = await fetchShownNames(clientOf(listed), 'device', ['1']);
    expect(['1', '2', '3', '4', '5'].map(nameOf)).toEqual(['Desk lamp', '2', '3', '4', '5']);
  });

  it.each([
    ['the credential may not list them', new RefusedError({ status: 403, title: 'Forbidden' })],
    ['the service does not answer', new UnreachableError('no answer')],
  ])('are ids if %s, so that results are shown', async (_, error) => {
    expect((await fetchShownNames(clientOf(failing(error)), 'device', ['1']))('1')).toBe('1');
  });

  it('are not requested without ids, or for JSON', async () => {
    const client = failing(new Error('requested'));
    expect((await fetchShownNames(clientOf(client), 'device', [null, undefined]))('1')).toBe('1');
    expect((await fetchShownNames(clientOf(client, true), 'device', ['1']))('1')).toBe('1');
  });
});

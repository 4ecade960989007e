import { expect, it } from 'vitest';
import { clientName } from '../../../console/src/administration/client-name.ts';

it.each([
  ['Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0', 'Firefox 130 on Windows'],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
    'Safari 17 on iOS',
  ],
  ['curl/8.5.0', 'curl/8.5.0'],
  ['node', 'node'],
  ['', ''],
  ['<img src=x>', '<img src=x>'],
])('a client that names itself %s is shown as %s', (userAgent, name) => {
  expect(clientName(userAgent)).toBe(name);
});

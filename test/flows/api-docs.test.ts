import { expect, it } from 'vitest';
import { refusals } from '../../src/domain/refusals.ts';
import { codeBlock, readDocument, testDocument } from '../support/documented-session.ts';

const path = 'docs/api.md';
const page = readDocument(path);

testDocument(path, { env: { RATE_LIMITS: 'free=1000' }, files: { 'watch.mjs': codeBlock(page, 'js') } });

it('docs/api.md lists every code with its status', () => {
  const rows = [...page.matchAll(/^\| (\d{3}) \| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|/gm)];
  const listed = rows.flatMap(([, status = '', codes = '']) =>
    [...codes.matchAll(/`(\w+)`/g)].map(([, code = '']) => [code, Number(status)] as const),
  );
  const known = Object.entries(refusals).map(([code, { status }]) => [code, status]);
  expect(listed.toSorted()).toEqual(known.toSorted());
});

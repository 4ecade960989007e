import { expect, it } from 'vitest';
import { csvRecord } from '../../src/domain/csv.ts';

it('quotes texts, doubles quotation marks, and keeps line breaks inside a field', () => {
  expect(csvRecord(['a', 'b,c', 'd"e', 'f\r\ng', null, 7])).toBe('"a","b,c","d""e","f\r\ng",,7\r\n');
});

it('marks what a spreadsheet would take for a formula as text', () => {
  for (const formula of ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', ' =1', '＝1', '=HYPERLINK("http://x")'])
    expect(csvRecord([formula])).toBe(`"'${formula.replaceAll('"', '""')}"\r\n`);
  for (const text of ['a=1', '1-2', 'x@y', "'=1"]) expect(csvRecord([text])).toBe(`"${text}"\r\n`);
});

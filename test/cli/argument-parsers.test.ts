import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import {
  parseAssignments,
  parseDurationS,
  parseIntegerBetween,
  parseJsonObject,
  parsePositiveNumber,
} from '../../src/cli/argument-parsers.ts';

describe('a duration', () => {
  it.each([
    ['90', 90],
    ['90s', 90],
    ['15m', 900],
    ['1h', 3_600],
    ['2d', 172_800],
  ])('%s is %i seconds', (text, expected) => expect(parseDurationS(text)).toBe(expected));
  it.each(['', '0', '-1', '1.5h', '1w', 'h', '1h30m'])('rejects %j', (text) => {
    expect(() => parseDurationS(text)).toThrow(InvalidArgumentError);
  });
});

describe('parameters of a command', () => {
  it('are parsed as JSON if valid, else kept as text', () => {
    expect(
      parseAssignments(['level=40', 'on=true', 'mode=heat', 'name=a=b', 'none=null', 'color={"hue":3}', 'empty=']),
    ).toEqual({
      ...{ level: 40, on: true, mode: 'heat', name: 'a=b', none: null, color: { hue: 3 }, empty: '' },
    });
  });

  it('keep every name, __proto__ included', () => {
    expect(JSON.stringify(parseAssignments(['__proto__=1']))).toBe('{"__proto__":1}');
  });

  it.each(['level', '=40', ''])('rejects %j, which is not name=value', (text) => {
    expect(() => parseAssignments([text])).toThrow(InvalidArgumentError);
  });

  it('can be one JSON object', () => {
    expect(parseJsonObject('{"level":40}')).toEqual({ level: 40 });
    for (const text of ['[1]', '1', 'null', '{level:40}'])
      expect(() => parseJsonObject(text)).toThrow(InvalidArgumentError);
  });
});

describe('a number', () => {
  it('must be within its bounds', () => {
    expect(parseIntegerBetween(1, 200)('200')).toBe(200);
    for (const text of ['0', '201', '1.5', 'many', '-3', '']) expect(() => parseIntegerBetween(1, 200)(text)).toThrow();
    expect(parsePositiveNumber('0.5')).toBe(0.5);
    for (const text of ['0', '-1', 'Infinity', 'many']) expect(() => parsePositiveNumber(text)).toThrow();
  });
});

import { describe, expect, it } from 'vitest';
import { isTimezone } from '../../src/domain/timezone.ts';

describe('a time zone', () => {
  it.each([
    'Europe/Berlin',
    'America/Argentina/Ushuaia',
    'Asia/Kolkata',
    'Asia/Calcutta',
    'US/Pacific',
    'UTC',
    'EST',
    'Etc/GMT+1',
    'Etc/UTC',
    'GMT',
    'GB',
    'NZ',
  ])('%s is valid', (name) => expect(isTimezone(name)).toBe(true));

  it.each([
    '',
    'Mars/Olympus',
    'europe/berlin',
    'EUROPE/BERLIN',
    '+01:00',
    '-0500',
    'UTC+1',
    'PST',
    'ACT',
    'SystemV/PST8',
    'Etc/Unknown',
    ' UTC',
    'Europe/Berlin\n',
    '../etc/passwd',
    'A'.repeat(65),
  ])('%j is not valid', (name) => expect(isTimezone(name)).toBe(false));
});

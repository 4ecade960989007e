import { describe, expect, it } from 'vitest';
import {
  actionNamed,
  actionTitle,
  isOfPage,
  namesSeveral,
  showsPages,
  subjectNamed,
  subjectsByTitle,
  targetTitle,
} from '../../../console/src/administration/audit-names.ts';

const ID = '0195d9a2-7f00-7000-8000-00000000abcd';
const titleOf = (subject: string, subject_name: string | null) =>
  targetTitle({ subject, subject_name }, () => 'ada@example.com');

describe('the target of an audit entry', () => {
  it('has the name of a device, and the kind of everything else', () => {
    expect(titleOf(`device:${ID}`, 'Lamp')).toBe('Lamp');
    expect(titleOf(`command:${ID}`, 'set_brightness')).toBe('Command set brightness');
    expect(titleOf(`plan:${ID}`, 'Good night')).toBe('Plan Good night');
    expect(titleOf(`dashboard:${ID}`, 'Hallway')).toBe('Dashboard Hallway');
    expect(titleOf(`ca:${ID}`, 'Plant 1')).toBe('CA Plant 1');
    expect(titleOf('firmware-key:abc', 'Release')).toBe('Firmware key Release');
    expect(titleOf('key:twk_1234', null)).toBe('API key twk_1234');
    expect(titleOf(`user:${ID}`, null)).toBe('ada@example.com');
    expect(titleOf(`device:${ID}`, null)).toBe('Device …0000abcd');
    expect(titleOf(`ca:${ID}`, null)).toBe('CA …0000abcd');
    expect([titleOf('flag:maintenance', null), titleOf('service', null)]).toEqual(['Flag maintenance', 'Service']);
    expect(titleOf('flag:commands_disabled', null)).toBe('Flag commands disabled');
    const ofTenant = (own: string) => targetTitle({ subject: `tenant:${ID}`, subject_name: null }, () => '', own);
    expect([ofTenant(ID), ofTenant('other')]).toEqual(['This tenant', 'Tenant …0000abcd']);
  });
});

it('an action is titled with its acronyms in capitals', () => {
  expect(['createApiKey', 'registerCa', 'createWsTicket', 'cancelPlan'].map(actionTitle)).toEqual([
    ...['Create API key', 'Register CA', 'Create WS ticket', 'Cancel plan'],
  ]);
  expect(actionNamed('create API key', ['createApiKey'])).toBe('createApiKey');
});

describe('an entry that a page of the console caused', () => {
  it('is a successful sign-in or ticket without an API key', () => {
    const entry = { action: 'createWsTicket', outcome: 'done', key: null };
    expect([entry, { ...entry, action: 'openCookieSession' }].map(isOfPage)).toEqual([true, true]);
    const others = [{ action: 'createHome' }, { outcome: 'FORBIDDEN_ROLE' }, { key: 'twk_1234' }];
    expect(others.map((other) => isOfPage({ ...entry, ...other }))).toEqual([false, false, false]);
  });

  it('is listed on request and with a filter by action', () => {
    const queries = ['', 'by=1', 'pages=true', 'action=createWsTicket'];
    expect(queries.map((query) => showsPages(new URLSearchParams(query)))).toEqual([false, false, true, true]);
  });
});

describe('a filter of the audit log', () => {
  it('takes an action by its name and by its title', () => {
    const known = ['commandDevice', 'state.reported', 'rotate_key'];
    expect(['Command device', 'commanddevice', 'Rotate key'].map((text) => actionNamed(text, known))).toEqual([
      ...['commandDevice', 'commandDevice', 'rotate_key'],
    ]);
    expect(['List API keys', 'Confirm', 'signIn', ' '].map((text) => actionNamed(text, []))).toEqual([
      ...['listApiKeys', 'confirm', 'signIn', ''],
    ]);
  });

  it('takes a target by its title and as a subject', () => {
    const known = new Map([['Living room blind', `device:${ID}`]]);
    expect(['living room BLIND', `device:${ID}`, '', 'Lamp'].map((text) => subjectNamed(text, known))).toEqual([
      ...[`device:${ID}`, `device:${ID}`, '', null],
    ]);
  });

  it('distinguishes targets with the same title by the end of their ids', () => {
    const other = ID.replace('abcd', 'ef01');
    const titles = [`device:${ID}`, `device:${other}`, 'service'].map((subject, n) => [
      subject,
      n < 2 ? 'Lamp' : 'Service',
    ]);
    const known = subjectsByTitle(new Map(titles as [string, string][]));
    expect(['lamp ', 'Lam', 'service'].map((text) => namesSeveral(text, known))).toEqual([true, false, false]);
    expect(subjectNamed('Lamp', known)).toBeNull();
    expect([...known]).toEqual([
      ['Lamp …0000abcd', `device:${ID}`],
      ['Lamp …0000ef01', `device:${other}`],
      ['Service', 'service'],
    ]);
  });
});

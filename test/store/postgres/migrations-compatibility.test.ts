import { describe, expect, it } from 'vitest';
import { migrations } from '../../../src/store/postgres/migrations.ts';

describe('the migrations', () => {
  it('after those before levels require only ids that exist', () => {
    for (const { oldestLevel } of migrations) {
      if (oldestLevel !== undefined) expect(migrations.map(({ id }) => id)).toContain(oldestLevel);
    }
  });

  it('that expand the schema take nothing away from older builds', () => {
    const expansions = migrations.filter(({ change }) => change === 'expand');
    expect(expansions.length).toBeGreaterThan(0);
    for (const { id, name, sql } of expansions) {
      const message =
        `migration '${name}' looks like a contract: older builds use what it removes, renames or restricts. ` +
        'Divide it into an expansion now and a contract in a later release (CONTRIBUTING.md), or add it to the ' +
        'reviewed expansions with the reason why older builds work after it.';
      expect(restrictionsIn(sql), message).toEqual(reviewed.get(id)?.found ?? []);
    }
  });

  it.each([
    'alter table t drop column a',
    'alter table t rename column a to b',
    'alter table t alter column a set not null',
    'alter table t alter column a type text',
    'alter table t alter column a set data type text',
    'truncate t',
    'revoke select on t from public',
    'alter table t add constraint c check (a > 0)',
    'alter table t add check (a > 0)',
    'alter table t add unique (a)',
    'alter table t add primary key (a)',
    'alter table t add foreign key (a) references u',
    'alter table t add exclude using gist (a with &&)',
    'create unique index i on t (a)',
    'create  UNIQUE\n index concurrently i on t (a)',
    'alter table t add column a text unique',
    'alter table t add column a integer check (a > 0)',
    'alter table t add column a uuid references u',
    'alter table t add column if not exists a text primary key',
    'alter table t add column a text not null',
    'alter table t add a text not null',
    'alter table t add column a text not null, add column b text default now()',
  ])('do not expand the schema with: %s', (sql) => {
    expect(restrictionsIn(`create table new (a text);\n${sql};`)).toHaveLength(1);
  });

  it.each([
    'create table t (a text primary key, b integer not null unique check (b > 0))',
    'create index i on t (a)',
    'alter table t add column a text',
    "alter table t add column a text not null default ''",
    'alter table t add column a numeric(3, 1) not null default 0, add column b text',
    'drop trigger if exists c on t;\ncreate trigger c before insert on t for each row execute function f()',
    'create function f() returns trigger language plpgsql as $$ begin delete from t; truncate u; return new; end $$',
    '-- add a constraint later\ncreate table t (a text)',
  ])('may expand the schema with: %s', (sql) => {
    expect(restrictionsIn(sql)).toEqual([]);
  });
});

/** Expansions that contain what `restrictionsIn` finds, by id, and why older builds work after them. */
const reviewed = new Map<number, { found: string[]; reason: string }>();

const restrictions = [
  /\b(drop|rename|truncate|revoke)\b/,
  /\bset not null\b/,
  /\balter column \w+ (set data )?type\b/,
  /\bcreate unique index\b/,
  // Everything that a table can get except a column: constraints, with and without a name.
  /\badd (?!column\b)\w+/,
  /\badd column\b.*\b(unique|check|references|primary key|exclude)\b/,
  /\badd column\b(?!.*\bdefault\b).*\bnot null\b/,
];

/** The parts of statements that take something away from builds that do not know them. */
function restrictionsIn(sql: string): string[] {
  const plain = sql
    .toLowerCase()
    .replace(/\$\$[^$]*\$\$/g, '')
    .replace(/--.*$/gm, '')
    .replace(/^drop trigger if exists .*$/gm, '')
    .replace(/\s+/g, ' ');
  // Each part adds, alters or removes one thing.
  const parts = plain.split(/;|,(?= *(?:add|alter|drop|rename)\b)/).map((part) => part.trim());
  return parts.filter((part) => restrictions.some((restriction) => restriction.test(part)));
}

import type { Command } from 'commander';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';

interface Home {
  id: string;
  home_name: string;
  timezone: string | null;
  created_at: string;
}
interface Room {
  id: string;
  name: string;
  home_id: string;
}

export function addHomes(program: Command, io: Io): void {
  const homes = program
    .command('homes')
    .summary('manage homes and rooms')
    .description('Lists, creates and renames homes, and lists and creates rooms.');
  homes
    .command('list', { isDefault: true })
    .description('Lists the homes of the tenant.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.get<{ homes: Home[] }>('/v1/homes', { limit: '200' });
      show(body, ({ homes }) =>
        printTable(
          io,
          ['ID', 'NAME', 'TIME ZONE', 'CREATED'],
          homes.map(({ id, home_name, timezone, created_at }) => [id, home_name, timezone, created_at]),
        ),
      );
    });
  homes
    .command('create <name>')
    .description('Creates a home and prints its id.')
    .option('--timezone <zone>', 'IANA time zone, such as Europe/Berlin')
    .action(async (name: string, { timezone }: { timezone?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const request = { home_name: name, ...(timezone !== undefined && { timezone }) };
      show(await api.post<{ id: string }>('/v1/homes', request), ({ id }) => io.out(id));
    });
  homes
    .command('rename <home> <name>')
    .description('Renames a home.')
    .action(async (home: string, name: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const path = `/v1/homes/${encodeURIComponent(await resolve('home', home))}`;
      const { body } = await api.request<{ home: Home }>('PATCH', path, { body: { home_name: name } });
      show(body, ({ home: renamed }) => io.out(`${renamed.id}  ${renamed.home_name}`));
    });
  homes
    .command('rooms <home>')
    .description('Lists the rooms of a home.')
    .action(async (home: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const homeId = await resolve('home', home);
      const body = await api.get<{ rooms: Room[] }>(`/v1/homes/${encodeURIComponent(homeId)}/rooms`, { limit: '200' });
      show(body, ({ rooms }) =>
        printTable(
          io,
          ['ID', 'NAME'],
          rooms.map(({ id, name }) => [id, name]),
        ),
      );
    });
  homes
    .command('add-room <home> <name>')
    .description('Creates a room and prints its id.')
    .action(async (home: string, name: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const homeId = await resolve('home', home);
      const body = await api.post<{ id: string }>(`/v1/homes/${encodeURIComponent(homeId)}/rooms`, { name });
      show(body, ({ id }) => io.out(id));
    });
}

interface Me {
  has_tenant: boolean;
  user: { id: string; ext_id: string; email: string | null; role: string; tenant_id: string | null };
  invitations: { id: string; tenant_name: string; role: string }[];
}

export function addTenant(program: Command, io: Io): void {
  program
    .command('whoami')
    .summary('show the user of the token')
    .description('Shows the user, role and tenant of the token, and pending invitations to other tenants.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<Me>('/v1/auth/me'), ({ user, invitations }) => {
        printRecord(io, user);
        for (const { id, tenant_name, role } of invitations) {
          io.err(`invited to ${tenant_name} as ${role}: twinkeep members accept ${id}`);
        }
      });
    });
  program
    .command('register-tenant <name>')
    .summary('create a tenant and become its owner')
    .description('Creates a tenant with you as its owner. Most other commands require a tenant.')
    .action(async (name: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ tenant_id: string; user_id: string }>('/v1/tenant/register', { tenant_name: name });
      show(body, (registered) => printRecord(io, registered));
    });
}

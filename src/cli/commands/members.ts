import { type Command, Option } from 'commander';
import { memberRoles } from '../../domain/membership.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';
import { printSessions, type SessionPage } from './sessions.ts';

interface Member {
  id: string;
  email: string | null;
  role: string;
  status: string;
}
interface MemberPage {
  members: Member[];
  next_cursor: string | null;
}

const memberPath = (id: string): string => `/v1/tenant/members/${encodeURIComponent(id)}`;

export function addMembers(program: Command, io: Io): void {
  const members = program
    .command('members')
    .summary('manage members and invitations')
    .description('Manages the members of the tenant and invitations to it. A member is given by id or email address.');
  members
    .command('list', { isDefault: true })
    .description('Lists members and invited users, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<MemberPage>('/v1/tenant/members', { limit: String(limit), cursor }), (page) => {
        const rows = page.members.map(({ id, email, role, status }) => [id, email, role, status]);
        printTable(io, ['ID', 'EMAIL', 'ROLE', 'STATUS'], rows);
        if (page.next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${page.next_cursor}`));
      });
    });
  members
    .command('invite <email>')
    .description('Invites a user, who sees it in `twinkeep whoami` after signing in with that address.')
    .addOption(new Option('--role <role>', 'a role not above your own').choices(memberRoles).default('user'))
    .action(async (email: string, { role }: { role: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<{ member: Member }>('/v1/tenant/members', { email, role }), ({ member }) =>
        printRecord(io, { ...member }),
      );
    });
  members
    .command('role <member> <role>')
    .description(`Changes the role of a member or an invited user: ${memberRoles.join(', ')}.`)
    .action(async (one: string, role: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('member', one, { whole: true });
      const { body } = await api.request<{ member: Member }>('PATCH', memberPath(id), { body: { role } });
      show(body, ({ member }) => printRecord(io, { ...member }));
    });
  members
    .command('remove <member...>')
    .description('Removes members and all their keys, or withdraws invitations. Every member may leave the tenant.')
    .action(async (all: string[], _options, command: Command) => {
      const { api, resolveAll } = createCliContext(io, command);
      for (const id of await resolveAll('member', all, { whole: true })) await api.request('DELETE', memberPath(id));
    });
  members
    .command('sessions <member>')
    .description('Lists the sessions of a member, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async (one: string, { limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('member', one);
      const page = await api.get<SessionPage>(`${memberPath(id)}/sessions`, { limit: String(limit), cursor });
      show(page, () => printSessions(io, page));
    });
  members
    .command('sign-out <member...>')
    .description('Signs members out everywhere: ends all their sessions and tokens. Their API keys stay valid.')
    .action(async (all: string[], _options, command: Command) => {
      const { api, resolveAll } = createCliContext(io, command);
      for (const id of await resolveAll('member', all, { whole: true }))
        await api.request('DELETE', `${memberPath(id)}/sessions`);
    });
  members
    .command('accept <invitation-id>')
    .description('Accepts an invitation to a tenant; `twinkeep whoami` lists your invitations.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const path = `/v1/auth/invitations/${encodeURIComponent(id)}/accept`;
      show(await api.post<{ tenant_id: string; role: string }>(path), (joined) => printRecord(io, joined));
    });
}

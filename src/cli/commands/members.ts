import { type Command, Option } from 'commander';
import { memberRoles } from '../../domain/membership.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';

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
    .summary('the people of the tenant, and invitations')
    .description('The people of the tenant, and invitations to it.');
  members
    .command('list', { isDefault: true })
    .description('Everybody of the tenant and who is invited, newest first.')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
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
    .description('Invites somebody; they see it in `twinkeep whoami` once they signed in with that address.')
    .addOption(new Option('--role <role>', 'at most your own').choices(memberRoles).default('user'))
    .action(async (email: string, { role }: { role: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<{ member: Member }>('/v1/tenant/members', { email, role }), ({ member }) =>
        printRecord(io, { ...member }),
      );
    });
  members
    .command('role <id> <role>')
    .description(`Gives a member, or somebody invited, another role: ${memberRoles.join(', ')}.`)
    .action(async (id: string, role: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { body } = await api.request<{ member: Member }>('PATCH', memberPath(id), { body: { role } });
      show(body, ({ member }) => printRecord(io, { ...member }));
    });
  members
    .command('remove <id...>')
    .description('Removes members with all their keys, or takes invitations back. Anybody may remove themselves.')
    .action(async (ids: string[], _options, command: Command) => {
      const { api } = createCliContext(io, command);
      for (const id of new Set(ids)) await api.request('DELETE', memberPath(id));
    });
  members
    .command('accept <invitation-id>')
    .description('Becomes a member of the tenant that invited you; `twinkeep whoami` lists the invitations.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const path = `/v1/auth/invitations/${encodeURIComponent(id)}/accept`;
      show(await api.post<{ tenant_id: string; role: string }>(path), (joined) => printRecord(io, joined));
    });
}

import type { SessionTokenStore } from '../contract/session-tokens.ts';
import type { Database } from './database.ts';

const arrayOf = (members: readonly (string | number)[]): string => `{${members.join(',')}}`;

export const sessionTokenStore = (database: Database): SessionTokenStore => ({
  async markUsed(tokens) {
    const rows = await database.write<{ token: string }>({
      name: 'tokens_use',
      text: `insert into used_session_tokens (signed_at, device_id, nonce)
        select * from unnest($1::bigint[], $2::uuid[], $3::text[])
        on conflict do nothing returning device_id || '.' || signed_at || '.' || nonce as token`,
      values: [
        arrayOf(tokens.map(({ timestamp }) => timestamp)),
        arrayOf(tokens.map(({ deviceId }) => deviceId)),
        arrayOf(tokens.map(({ nonce }) => nonce)),
      ],
    });
    return new Set(rows.map(({ token }) => token));
  },
});

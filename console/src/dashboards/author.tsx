import { useUserNames } from '../people/user-names.ts';

/** The author of a change: `user:<id>` or `key:<prefix>`. */
export function Author({ of }: { of: string }) {
  const nameOf = useUserNames();
  return <>{of.startsWith('user:') ? nameOf(of.slice('user:'.length)) : of.replace(':', ' ')}</>;
}

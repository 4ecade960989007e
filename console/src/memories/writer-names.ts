import { useUserNames } from '../people/user-names.ts';

interface Written {
  /** `user:<id>` or `key:<prefix>`. */
  source: string;
  adopted_by?: string | undefined;
}

/** The writer of a memory, with the user who adopted it, as text. */
export function useWriterNames(): (memory: Written) => string {
  const nameOf = useUserNames();
  return ({ source, adopted_by }) => {
    const [kind = '', id = ''] = source.split(':', 2);
    const writer = kind === 'key' ? `API key ${id}` : kind === 'user' ? nameOf(id) : source;
    return adopted_by === undefined ? writer : `${writer}, adopted by ${nameOf(adopted_by)}`;
  };
}

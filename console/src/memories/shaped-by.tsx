import { Link } from 'wouter';
import type { PendingConfirmation } from '../confirmations/pending-confirmation.ts';
import { useWriterNames } from './writer-names.ts';

/** The memories that shaped a step, with their writers; nothing without any. */
export function ShapedBy({ memories }: { memories: PendingConfirmation['memories'] }) {
  const nameOf = useWriterNames();
  if (memories === undefined || memories.length === 0) return null;
  return (
    <ul className="quiet">
      {memories.map((memory) => (
        <li key={memory.id}>
          Because of the {memory.kind} {memory.subject !== undefined && <q>{memory.subject}</q>} by {nameOf(memory)} (
          <Link href="/memories">memories</Link>)
        </li>
      ))}
    </ul>
  );
}

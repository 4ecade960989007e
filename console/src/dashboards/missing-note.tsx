import type { Problem } from '../api/problem.ts';
import { Loading } from '../ui/feedback.tsx';

/** Replaces the content of a tile whose device or room was deleted or cannot be read. */
export function MissingNote({ problem, what }: { problem: Problem | null; what: string }) {
  if (problem === null) return <Loading what="Loading" />;
  return <p className="quiet">{problem.status === 404 ? `This ${what} no longer exists.` : problem.message}</p>;
}

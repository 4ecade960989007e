import { useState } from 'react';
import type { listMemories } from '../../../src/operations/cognition/memories.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { useWriterNames } from './writer-names.ts';

type Memory = ResponseBody<typeof listMemories>['memories'][number];

const MEMORIES = '/v1/memories';

/** The memories of the tenant: what steers goals, and suggestions that a user can adopt. */
export function MemoriesPage() {
  const [onlySuggestions, setOnlySuggestions] = useState(false);
  const path = `${MEMORIES}?limit=200${onlySuggestions ? '&suggestion=true' : ''}`;
  const { data, error, refetch } = useGet<ResponseBody<typeof listMemories>>(path);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Memories</h1>
          <p className="quiet">
            Routines and preferences steer how goals become plans. Those of API keys and AI agents are suggestions: they
            have no effect until a user adopts them.
          </p>
        </div>
        <label>
          <input
            type="checkbox"
            checked={onlySuggestions}
            onChange={({ target }) => setOnlySuggestions(target.checked)}
          />{' '}
          Suggestions only
        </label>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading memories" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.memories.length === 0 ? (
        <Empty icon="memory" title={onlySuggestions ? 'No suggestions.' : 'No memories.'}>
          Users and AI agents store observations, preferences and routines here.
        </Empty>
      ) : (
        <section className="card" aria-label="Memories">
          <Table label="Memories" columns={['Memory', 'Content', 'Written by', 'Status', 'Actions']}>
            {data.memories.map((memory) => (
              <Row key={memory.id} of={memory} />
            ))}
          </Table>
          {data.next_cursor !== null && <p className="quiet">Only the newest 200 memories are shown.</p>}
        </section>
      )}
    </>
  );
}

function Row({ of: memory }: { of: Memory }) {
  const { may } = useSession();
  const nameOf = useWriterNames();
  const title = memory.subject ?? sentenceCase(memory.kind);
  return (
    <tr>
      <th scope="row">
        {title}
        <p className="quiet small">
          {memory.kind}, <Time at={memory.created_at} />
        </p>
      </th>
      <td className="what">{memory.content}</td>
      <td className="quiet">{nameOf(memory)}</td>
      <td>
        {memory.suggestion ? (
          <Pill tone="warn">Suggestion</Pill>
        ) : memory.kind === 'observation' ? (
          '—'
        ) : (
          <Pill tone="good">Steers goals</Pill>
        )}
      </td>
      <td>
        {may('user') && (
          <div className="row-actions">
            {memory.suggestion && (
              <ConfirmButton
                label="Adopt"
                about={title}
                title={`Adopt this ${memory.kind}?`}
                confirmLabel="Adopt"
                tone="primary"
                change={{ method: 'POST', path: `${MEMORIES}/${memory.id}/adopt`, body: {} }}
                stalePaths={[MEMORIES]}
              >
                <p>It steers goals from now on, with your permissions. It was written by {nameOf(memory)}:</p>
                <blockquote className="what">{memory.content}</blockquote>
              </ConfirmButton>
            )}
            <ConfirmButton
              label="Delete"
              about={title}
              title="Delete this memory?"
              confirmLabel="Delete memory"
              change={{ method: 'DELETE', path: `${MEMORIES}/${memory.id}` }}
              stalePaths={[MEMORIES]}
            >
              <p>It cannot be restored.</p>
            </ConfirmButton>
          </div>
        )}
      </td>
    </tr>
  );
}

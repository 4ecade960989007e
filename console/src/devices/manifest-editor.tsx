import { useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import { type SafetyClass, safetyClasses } from '../../../src/domain/manifest.ts';
import type { updateManifest } from '../../../src/operations/devices/manifests.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { invalidatePaths, useChange, useGet } from '../api/queries.ts';
import type { PendingChange } from '../changes/change-request.ts';
import { ConfirmChange } from '../changes/confirm-change.tsx';
import { ChangeError, LoadError, Loading, Note } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { deviceHref, useDeviceName } from './device-name.tsx';
import { type ManifestRecord, manifestPath } from './manifest.tsx';
import { draftOf, type ManifestDraft, readDraft, withClass, withoutAction } from './manifest-draft.ts';

/** Page to edit the manifest of a device and to publish it. */
export function ManifestEditorPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { data, error, refetch } = useGet<ManifestRecord>(manifestPath(id));
  const queries = useQueryClient();
  // A new number discards the draft.
  const [drafts, setDrafts] = useState(0);
  const [isPublished, setPublished] = useState(false);
  const name = useDeviceName(id);
  const isMissing = error?.status === 404;
  const startAgain = async (published: boolean): Promise<void> => {
    await invalidatePaths(queries, ['/v1/devices']);
    setPublished(published);
    setDrafts((before) => before + 1);
  };
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Manifest</h1>
          <p className="quiet">
            <Link href={deviceHref(id)}>{name}</Link>
            {data === undefined ? '' : `, version ${data.version}`}
          </p>
        </div>
      </header>
      {isPublished && <Note tone="good">Published.</Note>}
      {data !== undefined || isMissing ? (
        <Editor
          key={drafts}
          id={id}
          manifest={isMissing ? null : (data ?? null)}
          onPublished={() => startAgain(true)}
          onDiscard={() => startAgain(false)}
        />
      ) : error === null ? (
        <Loading what="Loading manifest" />
      ) : (
        <LoadError problem={error} retry={refetch} />
      )}
    </>
  );
}

interface EditorProps {
  id: string;
  /** The current one. The draft is of the one that was current when the editor was opened. */
  manifest: ManifestRecord | null;
  onPublished(): Promise<void>;
  onDiscard(): Promise<void>;
}

function Editor({ id, manifest: current, onPublished, onDiscard }: EditorProps) {
  const [manifest] = useState(current);
  const [text, setText] = useState(() => draftOf(manifest));
  const [pending, setPending] = useState<PendingChange | null>(null);
  // The page refetches the manifest: until then the editor stays as it is.
  const publish = useChange<ResponseBody<typeof updateManifest>>();
  const draft = readDraft(text);
  const textId = useId();
  const isUnchanged = text === draftOf(manifest);
  const isRefused = publish.error !== null && publish.error.code !== 'DRY_RUN_REQUIRED';
  const send = (): void => {
    if (draft === null) return;
    const { body } = draft;
    publish.mutate(
      manifest === null
        ? { method: 'POST', path: manifestPath(id), body }
        : { method: 'PUT', path: manifestPath(id), body: { ...body, version: manifest.version } },
      {
        onSuccess: () => void onPublished(),
        onError(problem) {
          if (problem.code === 'DRY_RUN_REQUIRED') setPending(problem.body as PendingChange);
        },
      },
    );
  };
  return (
    <section className="card" aria-label="Manifest">
      {current?.version !== manifest?.version && (
        <Note tone="warn">Another version was published in the meantime. Discard your changes to edit it.</Note>
      )}
      {draft === null ? (
        <Note tone="warn">The text is not a JSON object with a list of capabilities.</Note>
      ) : (
        <Actions draft={draft} onChange={setText} />
      )}
      <label htmlFor={textId}>Manifest as JSON</label>
      <textarea
        id={textId}
        className="mono"
        rows={24}
        spellCheck={false}
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <p className="quiet small">
        A change that makes a critical action easier to use has to be confirmed before it takes effect.
      </p>
      {isRefused && <ChangeError error={publish.error} />}
      <div className="actions">
        <button type="button" className="button" onClick={() => void onDiscard()}>
          Discard changes
        </button>
        <button
          type="button"
          className="button primary"
          disabled={draft === null || publish.isPending || (manifest !== null && isUnchanged)}
          onClick={send}
        >
          Publish
        </button>
      </div>
      {pending !== null && (
        <ConfirmChange
          title="Make the manifest weaker?"
          pending={pending}
          stalePaths={[]}
          onClose={() => setPending(null)}
          onApplied={() => void onPublished()}
        />
      )}
    </section>
  );
}

function Actions({ draft, onChange }: { draft: ManifestDraft; onChange(text: string): void }) {
  return (
    <Table label="Actions" columns={['Action', 'Safety class', 'Changes']}>
      {draft.actions.map((one, index) =>
        one === null ? null : (
          // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat while the text is edited
          <tr key={index}>
            <th scope="row" className="mono">
              {one.action}
            </th>
            <td>
              <select
                aria-label={`Safety class of ${one.action}`}
                value={one.safetyClass ?? ''}
                onChange={({ target }) =>
                  onChange(withClass(draft, index, target.value === '' ? null : (target.value as SafetyClass)))
                }
              >
                {one.safetyClass === null && <option value="">default</option>}
                {safetyClasses.map((name) => (
                  <option key={name} value={name}>
                    {name.toLowerCase()}
                  </option>
                ))}
              </select>
            </td>
            <td>
              <button type="button" className="button" onClick={() => onChange(withoutAction(draft, index))}>
                Remove<span className="unseen"> {one.action}</span>
              </button>
            </td>
          </tr>
        ),
      )}
    </Table>
  );
}

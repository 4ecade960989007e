import { useState } from 'react';
import { Link } from 'wouter';
import { forEachLeaf, untimedReport } from '../../../src/domain/history/sample.ts';
import type { Json } from '../../../src/domain/values.ts';
import type { explainValue } from '../../../src/operations/timeline/value-explanation.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { commandHref } from '../commands/status.tsx';
import { Requester } from '../people/requester.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Time } from '../ui/time.tsx';
import './why.css';

type Explanation = ResponseBody<typeof explainValue>['explanation'];
type ChainLink = Explanation['chain'][number];

interface WhyProps {
  deviceId: string;
  /** A top-level property of the state. */
  name: string;
  /** As the twin shows it. */
  label: string;
  value: Json | undefined;
}

/** Opens a dialog that explains the value, or one of the values in it. Renders nothing for a value that the history does not have. */
export function Why({ deviceId, name, label, value }: WhyProps) {
  const [chosen, setChosen] = useState<string | null>(null);
  const paths = pathsIn(name, value);
  const [first] = paths;
  if (first === undefined) return null;
  return (
    <>
      <button type="button" className="why" aria-label={`Why? ${label}`} onClick={() => setChosen(first)}>
        Why?
      </button>
      {chosen !== null && (
        <Dialog title={`Why ${label} has this value`} onClose={() => setChosen(null)}>
          {paths.length > 1 && (
            <label>
              Value
              <select value={chosen} onChange={(event) => setChosen(event.target.value)}>
                {paths.map((path) => (
                  <option key={path}>{path}</option>
                ))}
              </select>
            </label>
          )}
          <ExplanationOf key={chosen} deviceId={deviceId} property={chosen} />
          <div className="actions">
            <button type="button" className="button" onClick={() => setChosen(null)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function pathsIn(name: string, value: Json | undefined): string[] {
  const paths: string[] = [];
  forEachLeaf(untimedReport({ [name]: value ?? null }), (path) => paths.push(path));
  return paths;
}

function ExplanationOf({ deviceId, property }: { deviceId: string; property: string }) {
  const path = `/v1/devices/${deviceId}/why?${new URLSearchParams({ property })}`;
  const { data, error, refetch } = useGet<ResponseBody<typeof explainValue>>(path);
  if (error !== null) return <LoadError problem={error} retry={() => void refetch()} />;
  if (data === undefined) return <Loading what="Loading explanation" />;
  const { cause, chain, left_out } = data.explanation;
  return (
    <>
      <p>{cause.text}</p>
      <ol className="why-chain">
        {chain.map((link, n) => (
          <ChainEntry key={`${link.kind} ${link.id ?? n}`} link={link} />
        ))}
      </ol>
      {left_out.length > 0 && <p className="quiet small">Your credential may not read: {left_out.join(', ')}.</p>}
    </>
  );
}

function ChainEntry({ link: { kind, at, text, id, by, credential } }: { link: ChainLink }) {
  const href = hrefOf(kind, id);
  return (
    <li>
      <p>{href === null ? text : <Link href={href}>{text}</Link>}</p>
      <p className="quiet small">
        {at !== null && <Time at={at} exact />}
        {by !== null && (
          <span>
            {' '}
            by <Requester of={{ requested_by: by, ...(credential && { requested_with: credential }) }} />
          </span>
        )}
      </p>
    </li>
  );
}

function hrefOf(kind: ChainLink['kind'], id: string | null): string | null {
  if (id === null) return null;
  if (kind === 'plan') return `/plans/${id}`;
  return kind === 'command' || kind === 'confirmation' ? commandHref(id) : '/memories';
}

import { Link } from 'wouter';
import { useChange } from '../api/queries.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { useActionUnits } from '../devices/device-units.ts';
import { Requester } from '../people/requester.tsx';
import { useUserNames } from '../people/user-names.ts';
import { useSession } from '../session.tsx';
import { ChangeError, LoadError, Loading } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { Fact, Facts, ObjectMembers, Value } from '../ui/values.tsx';
import { CommandProgress } from './command-progress.tsx';
import { type CommandRecord, isFinal } from './stages.ts';
import { StatusPill } from './status.tsx';
import { useCommand } from './use-command.ts';
import './page.css';

/** Page of one command: progress, request and result. */
export function CommandPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { data, error, refetch } = useCommand(id, null);
  if (data === undefined || error?.status === 404) {
    return error === null ? (
      <Loading what="Loading command" />
    ) : (
      <LoadError isWholePage problem={error} retry={refetch} />
    );
  }
  const { command } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{sentenceCase(command.action)}</h1>
          <p className="quiet">
            <DeviceName id={command.device_id} /> · <StatusPill status={command.status} />
          </p>
        </div>
        <Cancel command={command} />
      </header>
      <section className="card" aria-labelledby="way">
        <header>
          <h2 id="way">Progress</h2>
        </header>
        <CommandProgress command={command} />
        <FailureReason command={command} />
      </section>
      <div className="halves">
        <section className="card" aria-labelledby="asked">
          <header>
            <h2 id="asked">Request</h2>
          </header>
          <RequestFacts command={command} />
        </section>
        <section className="card" aria-labelledby="shown">
          <header>
            <h2 id="shown">Result</h2>
          </header>
          <ResultFacts command={command} />
        </section>
      </div>
    </>
  );
}

function RequestFacts({ command }: { command: CommandRecord }) {
  const units = useActionUnits(command.device_id, command.action);
  const nameOf = useUserNames();
  const { may } = useSession();
  return (
    <Facts>
      <Fact name="Requested by">
        <Requester of={command} />, <Time at={command.timestamp} />
      </Fact>
      {command.confirmed_by !== undefined && <Fact name="Confirmed by">{nameOf(command.confirmed_by)}</Fact>}
      <Fact name="Safety class">{command.safety_class?.toLowerCase() ?? '—'}</Fact>
      <Fact name="Parameters">
        {Object.keys(command.params).length === 0 ? (
          'none'
        ) : (
          <ObjectMembers of={command.params} unitOf={units.params} />
        )}
      </Fact>
      <Fact name="Time to live">{command.ttl_s} s</Fact>
      <Fact name="Timeout">{command.timeout_s} s</Fact>
      {may('admin') && (
        <Fact name="Actor">
          <Link href={`/actors/command/${command.id}`}>Statechart and journal</Link>
        </Fact>
      )}
    </Facts>
  );
}

function ResultFacts({ command }: { command: CommandRecord }) {
  const { device_id, action, verification, result } = command;
  const { state: unitOf } = useActionUnits(device_id, action);
  const { expected, observed } = verification;
  const isOver = isFinal(command) && verification.status === 'pending';
  return (
    <Facts>
      <Fact name="Verification">
        {isOver ? 'None: the command did not succeed' : sentenceCase(verification.status)}
      </Fact>
      {expected !== undefined && (
        <Fact name="Expected">
          <ObjectMembers of={expected} unitOf={unitOf} />
        </Fact>
      )}
      {observed !== undefined && (
        <Fact name="Observed">
          <ObjectMembers of={observed} unitOf={unitOf} />
        </Fact>
      )}
      {result !== undefined && (
        <Fact name="Device response">
          <Value of={result} />
        </Fact>
      )}
    </Facts>
  );
}

/** Why the command failed, was refused, or has an unknown outcome. */
function FailureReason({ command: { refusal, error, status, late } }: { command: CommandRecord }) {
  return (
    <>
      {refusal !== undefined && (
        <p className="why bad">
          {refusal.detail} <code>{refusal.code}</code>
        </p>
      )}
      {error !== undefined && (
        <p className="why bad">
          Device error: <Value of={error} />
        </p>
      )}
      {status === 'timed_out' && (
        <p className="why bad">
          The command was sent to the device, but no final acknowledgement arrived. The outcome is unknown.
        </p>
      )}
      {late === true && <p className="why warn">The final acknowledgement arrived after the timeout.</p>}
    </>
  );
}

function Cancel({ command: { id, status } }: { command: CommandRecord }) {
  const { may } = useSession();
  const cancel = useChange([`/v1/commands/${id}`, '/v1/confirmations']);
  if (!may('user') || !['awaiting_confirmation', 'dispatched'].includes(status)) return null;
  return (
    <div>
      <button
        type="button"
        className="button danger"
        disabled={cancel.isPending}
        onClick={() => cancel.mutate({ method: 'POST', path: `/v1/commands/${id}/cancel`, body: {} })}
      >
        Cancel command
      </button>
      <ChangeError error={cancel.error} />
    </div>
  );
}

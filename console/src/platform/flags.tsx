import type { listFlags } from '../../../src/operations/platform/administration.ts';
import type { Answer } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import '../govern/govern.css';

type FlagName = keyof Answer<typeof listFlags>['flags'];

const FLAGS = '/v1/admin/flags';

const about: Readonly<Record<FlagName, string>> = {
  maintenance_mode: 'Whatever changes something is refused, for everybody. Reading, devices, and cancelling go on.',
  registration_lock: 'No new tenants and no new devices.',
  commands_disabled: 'No command is sent to any device. Plans wait.',
  cognition_disabled: 'No goals and observations go to agents.',
};

/** Switches of the whole service. */
export function Flags() {
  const { data, error, refetch } = useGet<Answer<typeof listFlags>>(FLAGS, { refetchIntervalMs: 15_000 });
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Flags</h1>
          <p className="quiet">Each counts for every tenant, at once.</p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading the flags" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <section className="card narrow-card" aria-label="Flags of the service">
          {(Object.keys(about) as FlagName[]).map((flag) => {
            const set = data.flags[flag] === true;
            return (
              <div key={flag} className="flag">
                <div>
                  <h2>{sentenceCase(flag)}</h2>
                  <p className="quiet small">{about[flag]}</p>
                </div>
                <Pill tone={set ? 'warn' : 'quiet'}>{set ? 'set' : 'not set'}</Pill>
                <ConfirmButton
                  label={set ? 'Clear' : 'Set'}
                  about={sentenceCase(flag).toLowerCase()}
                  title={`${set ? 'Clear' : 'Set'} ${sentenceCase(flag).toLowerCase()}?`}
                  confirmLabel={set ? 'Clear it' : 'Set it'}
                  tone={set ? 'primary' : 'danger'}
                  change={{ method: 'POST', path: `${FLAGS}/${flag}`, body: { state: !set } }}
                  stalePaths={[FLAGS]}
                >
                  <p>{set ? 'What it stopped goes on at once, for every tenant.' : about[flag]}</p>
                </ConfirmButton>
              </div>
            );
          })}
        </section>
      )}
    </>
  );
}

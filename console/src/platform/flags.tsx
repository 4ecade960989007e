import type { listFlags } from '../../../src/operations/platform/administration.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import '../administration/administration.css';

type FlagName = keyof ResponseBody<typeof listFlags>['flags'];

const FLAGS = '/v1/admin/flags';

const about: Readonly<Record<FlagName, string>> = {
  maintenance_mode: 'Changes are refused for all users. Reading, device messages and cancelling continue.',
  registration_lock: 'No new tenants and no new devices.',
  commands_disabled: 'No commands are sent to devices. Plans wait.',
  cognition_disabled: 'No goals or observations are sent to agents.',
};

/** System flags of the service. */
export function FlagsPage() {
  const { data, error, refetch } = useGet<ResponseBody<typeof listFlags>>(FLAGS, { refetchIntervalMs: 15_000 });
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Flags</h1>
          <p className="quiet">Flags apply to all tenants immediately.</p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading flags" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <section className="card narrow-card" aria-label="System flags">
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
                  confirmLabel={set ? 'Clear flag' : 'Set flag'}
                  tone={set ? 'primary' : 'danger'}
                  change={{ method: 'POST', path: `${FLAGS}/${flag}`, body: { state: !set } }}
                  stalePaths={[FLAGS]}
                >
                  <p>{set ? 'The stopped functions resume immediately for all tenants.' : about[flag]}</p>
                </ConfirmButton>
              </div>
            );
          })}
        </section>
      )}
    </>
  );
}

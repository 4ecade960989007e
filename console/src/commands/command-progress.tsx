import { useUserNames } from '../people/user-names.ts';
import { Icon, type IconName } from '../ui/icons.tsx';
import { Time } from '../ui/time.tsx';
import { type CommandRecord, type Stage, stagesOf } from './stages.ts';
import './command-progress.css';

const icons: Readonly<Record<Stage['phase'], IconName | null>> = {
  done: 'good',
  now: null,
  ahead: null,
  over: 'close',
};
const phaseText: Readonly<Record<Stage['phase'], string>> = {
  done: 'done',
  now: 'in progress',
  ahead: 'pending',
  over: 'ended here',
};

/** Progress of a command as a row of stages, updated live. */
export function CommandProgress({ command }: { command: CommandRecord }) {
  const nameOf = useUserNames();
  return (
    <div className="way-frame">
      <ol className="way" aria-label="Command progress">
        {stagesOf(command).map(({ id, title, phase, tone, at, by, note }) => (
          <li
            key={id}
            className={`${phase} ${tone}`}
            data-stage={id}
            {...(phase === 'now' && { 'aria-current': 'step' })}
          >
            <span className="way-mark">{icons[phase] !== null && <Icon name={icons[phase]} />}</span>
            <div>
              <p className="way-title">
                {title}
                <span className="unseen">, {phaseText[phase]}</span>
              </p>
              {at !== null && (
                <p className="quiet small">
                  <Time at={at} exact />
                  {by !== null && ` · ${by === command.device_id ? 'the device' : nameOf(by)}`}
                </p>
              )}
              {note !== null && <p className="quiet small">{note}</p>}
            </div>
          </li>
        ))}
      </ol>
    </div>
  );
}

import { DeviceName } from '../devices/name.tsx';
import { Members, Value } from '../ui/values.tsx';
import { headline, plain } from '../ui/words.ts';
import type { Waiting } from './waiting.ts';
import './effect.css';

type Shown = Pick<Waiting, 'preview' | 'params' | 'device_id' | 'compensation'>;

/** What the device reports now, and what it will once it is done. */
export function Effect({ of: { preview, params, compensation, device_id } }: { of: Shown }) {
  const { changes, current, expected } = preview;
  const parameters = <Members of={params} />;
  return (
    <>
      {changes !== null && Object.keys(changes).length > 0 ? (
        <table className="effect">
          <caption className="unseen">What it changes</caption>
          <thead>
            <tr>
              <th scope="col">Property</th>
              <th scope="col">Now</th>
              <th scope="col">
                <span className="unseen">becomes</span>
              </th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(changes).map(([name, { from, to }]) => (
              <tr key={name}>
                <th scope="row">{plain(name)}</th>
                <td>
                  <Value of={from} />
                </td>
                <td aria-hidden="true">→</td>
                <td className="after">
                  <Value of={to} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="quiet">
          {expected === null
            ? 'What it changes cannot be foretold: no state of the device proves it.'
            : 'The device already reports what it leads to.'}
          {expected === null && Object.keys(current).length === 0 && ' The device has not reported a state yet.'}
        </p>
      )}
      {parameters}
      {compensation !== undefined && (
        <p className="quiet">
          Approving covers undoing it, too, should its plan fail: {headline(compensation.action)} on{' '}
          <DeviceName id={device_id} />
          {Object.keys(compensation.params).length > 0 && (
            <>
              {' '}
              with <Value of={compensation.params} />
            </>
          )}
          .
        </p>
      )}
    </>
  );
}

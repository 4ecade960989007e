import { useState } from 'react';
import type { ConfirmationListBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { useStream } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { type ConfirmationUpdate, WaitingSet } from './waiting-set.ts';

/** Entries of one page of the list; a longer list is shown as `200+`. */
const MAX_COUNTED = 200;

/** Commands that wait for confirmation: listed once for each connection of the stream, and then updated by it. */
export function useWaitingConfirmations(): WaitingSet {
  const { me, may } = useSession();
  const [waiting] = useState(() => new WaitingSet());
  const [, setVersion] = useState(0);
  const render = (): void => setVersion((before) => before + 1);
  useStream({
    path: '/ws/state',
    query: { events: 'confirmation' },
    enabled: me.has_tenant && may('user'),
    onMessage(message) {
      const update = message as Partial<ConfirmationUpdate>;
      if (update.command_id === undefined) return;
      waiting.apply(update as ConfirmationUpdate);
      render();
    },
    onOpen() {
      const end = waiting.beginListing();
      requestJson<ConfirmationListBody>('GET', `/v1/confirmations?limit=${MAX_COUNTED}`).then(
        ({ confirmations }) => {
          end(confirmations);
          render();
        },
        // The number is kept until the stream connects again.
        () => end(null),
      );
    },
  });
  return waiting;
}

/** Number of commands that wait for confirmation; renders nothing if there is none. */
export function WaitingBadge({ of: waiting }: { of: WaitingSet }) {
  const number = waiting.countAt(useNow());
  if (number === 0) return null;
  return (
    <span className="menu-badge">
      {number >= MAX_COUNTED ? `${MAX_COUNTED}+` : number}
      <span className="unseen"> waiting</span>
    </span>
  );
}

import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { JsonObject } from '../../../src/domain/values.ts';
import { requestJson } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { deviceHref, deviceNameOf } from '../devices/device-name.tsx';
import { iconOfDevice, mainValue } from '../devices/main-value.ts';
import { Icon } from '../ui/icons.tsx';
import { LastSeen } from '../ui/time.tsx';

/** The first part of the key of the query of the tiles. */
export const TILES_KEY = 'device tiles';

const MAX_TILES = 12;
const REFRESH_MS = 10_000;
const LOW_PERCENT = 20;

const QUERY = `query ($first: Int) {
  devices(first: $first, revoked: false) {
    nodes { id name deviceType online lastSeen state battery room { name } }
    pageInfo { hasNextPage }
  }
}`;

interface Tile {
  id: string;
  name: string | null;
  deviceType: string;
  online: boolean;
  lastSeen: string | null;
  state: JsonObject;
  /** Percent. */
  battery: number | null;
  room: { name: string } | null;
}

interface Answer {
  data?: { devices: { nodes: Tile[]; pageInfo: { hasNextPage: boolean } } | null };
}

/** The newest devices with their main values; nothing without devices. */
export function DeviceTiles() {
  const { data } = useQuery<Answer, Problem>({
    queryKey: [TILES_KEY],
    queryFn: () => requestJson<Answer>('POST', '/graphql', { body: { query: QUERY, variables: { first: MAX_TILES } } }),
    refetchInterval: REFRESH_MS,
  });
  const found = data?.data?.devices;
  if (found === undefined || found === null || found.nodes.length === 0) return null;
  return (
    <section aria-labelledby="device-tiles">
      <header className="home-part tiles-head">
        <h2 id="device-tiles">Devices</h2>
        <Link href="/devices">{found.pageInfo.hasNextPage ? 'Show all devices' : 'Show as a list'}</Link>
      </header>
      <ul className="tiles">
        {found.nodes.map((tile) => (
          <li key={tile.id} className="card tile">
            <DeviceTile of={tile} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function DeviceTile({ of: { id, name, deviceType, online, lastSeen, state, battery, room } }: { of: Tile }) {
  return (
    <>
      <h3>
        <Icon name={iconOfDevice(deviceType)} />
        <Link href={deviceHref(id)}>{deviceNameOf({ id, name, device_type: deviceType })}</Link>
      </h3>
      <p className="tile-value">{mainValue(deviceType, state) ?? '—'}</p>
      <p className="quiet small">
        {room !== null && `${room.name} · `}
        {online ? (
          'online'
        ) : (
          <>
            offline, <LastSeen at={lastSeen} />
          </>
        )}
        {battery !== null && battery <= LOW_PERCENT && ` · battery ${Math.round(battery)} %`}
      </p>
    </>
  );
}

import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP balancer: gives each connection to the next target that accepts it. */
export interface Balancer {
  port: number;
  /** Ports of the loopback address, in turn; connections that exist stay where they are. */
  targets: number[];
  close(): Promise<void>;
}

export async function startBalancer(targets: number[]): Promise<Balancer> {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server: Server = createServer((client) => {
    track(client);
    const ports = balancer.targets.map((_, n) => balancer.targets[(turn + n) % balancer.targets.length] as number);
    turn += 1;
    forward(client, ports);
  });
  function track(socket: Socket): void {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  }
  function forward(client: Socket, [port, ...others]: readonly number[]): void {
    if (port === undefined) return void client.destroy();
    const target = connect(port, '127.0.0.1');
    track(target);
    const onRefused = () => forward(client, others);
    target.once('error', onRefused);
    target.once('connect', () => {
      target.off('error', onRefused);
      client.pipe(target).pipe(client);
      client.once('close', () => target.destroy());
      target.once('close', () => client.destroy());
    });
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const balancer: Balancer = {
    port,
    targets,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return balancer;
}

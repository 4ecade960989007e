import { connect, type Socket } from 'node:net';

export interface RawResponse {
  status: number;
  body: string;
}

const HEAD_END = Buffer.from('\r\n\r\n');

/** A keep-alive connection with one request at a time, encoded by hand. Responses must have a `Content-Length`. */
export class RawConnection {
  #socket: Socket;
  #pending: Buffer = Buffer.alloc(0);
  #waiting: { resolve(answer: RawResponse): void; reject(error: Error): void } | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (data: Buffer) => this.#received(data));
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', () => this.#failed(new Error('the service closed the connection')));
  }

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => {
        socket.off('error', reject);
        resolve(new RawConnection(socket));
      });
      socket.once('error', reject);
    });
  }

  post(path: string, headers: string, body: string): Promise<RawResponse> {
    const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    return this.#sendRequest(`${head}${headers}\r\n${body}`);
  }

  get(path: string, headers: string): Promise<RawResponse> {
    return this.#sendRequest(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`);
  }

  close(): void {
    this.#waiting = null;
    this.#socket.destroy();
  }

  #sendRequest(request: string): Promise<RawResponse> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      if (this.#socket.destroyed) this.#failed(new Error('connection closed'));
      else this.#socket.write(request, 'latin1');
    });
  }

  #received(data: Buffer): void {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, data]) : data;
    const end = this.#pending.indexOf(HEAD_END);
    if (end < 0) return;
    const head = this.#pending.toString('latin1', 0, end);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 'NaN');
    if (Number.isNaN(length)) {
      this.#failed(new Error('response without Content-Length'));
      return;
    }
    const total = end + 4 + length;
    if (this.#pending.length < total) return;
    const body = this.#pending.toString('utf8', end + 4, total);
    this.#pending = this.#pending.subarray(total);
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.resolve({ status: Number(head.slice(9, 12)), body });
  }

  #failed(error: Error): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.reject(error);
  }
}

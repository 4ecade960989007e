import type { Socket } from 'node:net';
import { connectSharingReads, PartialMessage } from './shared-read.ts';

export interface RawResponse {
  status: number;
  body: string;
}

const HEAD_END = '\r\n\r\n';
const CONTENT_LENGTH = /content-length: *(\d+)/i;

/** A keep-alive connection with one request at a time, encoded by hand. Responses must have a `Content-Length`. */
export class RawConnection {
  readonly #socket: Socket;
  readonly #partial = new PartialMessage();
  #waiting: { resolve(answer: RawResponse): void; reject(error: Error): void } | null = null;

  private constructor(port: number) {
    this.#socket = connectSharingReads(port, (bytes) => this.#received(bytes));
    this.#socket.on('error', (error) => this.#failed(error));
    this.#socket.on('close', () => this.#failed(new Error('the service closed the connection')));
  }

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const connection = new RawConnection(port);
      const socket = connection.#socket;
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(connection);
      });
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

  #received(fresh: Buffer): void {
    const bytes = this.#partial.append(fresh);
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if (end < 0) {
      this.#partial.keep(bytes);
      return;
    }
    const head = bytes.toString('latin1', 0, end);
    const length = Number(CONTENT_LENGTH.exec(head)?.[1] ?? 'NaN');
    if (Number.isNaN(length)) {
      this.#failed(new Error('response without Content-Length'));
      return;
    }
    const total = end + HEAD_END.length + length;
    if (bytes.length < total) {
      this.#partial.keep(bytes);
      return;
    }
    const body = bytes.toString('utf8', end + HEAD_END.length, total);
    this.#partial.keep(bytes.subarray(total));
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

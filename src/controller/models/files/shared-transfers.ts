import { BerthError } from "../../../base/errors.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { FileTransfer, TransferResult } from "./file-transfer.ts";

interface RunningTransfer {
  readonly transfer: FileTransfer;
  readonly result: Promise<TransferResult>;
  readonly stop: AbortController;
  waiting: number;
  isOver: boolean;
}

/**
 * Runs at most one transfer for each content id, even if several models need the file. A transfer is aborted when no
 * caller waits for it any more.
 */
export class SharedTransfers implements AsyncDisposable {
  readonly #running = new Map<string, RunningTransfer>();

  /** Returns the running transfer of the content with this key. */
  get(content: string): FileTransfer | undefined {
    return this.#running.get(content)?.transfer;
  }

  /**
   * Waits for the running transfer, or starts one. If the transfer of another caller fails because of the hub, calls
   * `begin` to start a new one, because another token or URL may succeed.
   */
  async joinOrStart(
    content: string,
    key: string,
    begin: () => { readonly transfer: FileTransfer; readonly dispose: () => void },
    signal: AbortSignal,
  ): Promise<TransferResult> {
    for (;;) {
      const other = this.#running.get(content);
      if (!other) return this.#wait(this.#start(content, begin), signal);
      if (other.stop.signal.aborted) {
        await raceWithAbort(other.result.then(ignore, ignore), signal);
        continue;
      }
      other.transfer.addKey(key);
      try {
        return await this.#wait(other, signal);
      } catch (error) {
        const isOfHub = error instanceof BerthError && error.code.startsWith("hub_");
        if (!isOfHub) throw error;
        signal.throwIfAborted();
      }
    }
  }

  #start(
    content: string,
    begin: () => { readonly transfer: FileTransfer; readonly dispose: () => void },
  ): RunningTransfer {
    const { transfer, dispose } = begin();
    const stop = new AbortController();
    const result = transfer.run(stop.signal).finally(() => {
      running.isOver = true;
      dispose();
      if (this.#running.get(content) === running) this.#running.delete(content);
    });
    const running: RunningTransfer = { transfer, result, stop, waiting: 0, isOver: false };
    this.#running.set(content, running);
    return running;
  }

  async #wait(running: RunningTransfer, signal: AbortSignal): Promise<TransferResult> {
    running.waiting += 1;
    try {
      return await raceWithAbort(running.result, signal);
    } finally {
      running.waiting -= 1;
      if (running.waiting === 0 && !running.isOver) {
        running.stop.abort(new DOMException("no caller waits for the transfer", "AbortError"));
        // The received bytes are flushed and journaled before the caller continues.
        await running.result.then(ignore, ignore);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort(new DOMException("Berth is ending", "AbortError"));
    await Promise.all(all.map(({ result }) => result.then(ignore, ignore)));
  }
}

function ignore(): void {}

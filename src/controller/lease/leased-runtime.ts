import type { ContainerRuntime } from "../runtime/port.ts";
import type { WriterLease } from "./port.ts";

const WRITES = {
  createContainer: true,
  startContainer: true,
  stopContainer: true,
  removeContainer: true,
  renameContainer: true,
  connectNetwork: true,
  ensureNetwork: true,
  ensureStackNetwork: true,
  removeNetwork: true,
  ensureVolume: true,
  removeVolume: true,
  pullImage: true,
  buildImage: true,
  removeImage: true,
} satisfies Partial<Record<keyof ContainerRuntime, true>>;

/** Returns a proxy of the runtime whose writes throw `engine_leased` while another process holds the lease. */
export function withLease<R extends ContainerRuntime>(runtime: R, lease: WriterLease): R {
  return new Proxy(runtime, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property, target);
      if (typeof member !== "function") return member;
      if (typeof property !== "string" || !Object.hasOwn(WRITES, property))
        return (...args: unknown[]): unknown => Reflect.apply(member, target, args);
      return async (...args: unknown[]): Promise<unknown> => {
        const signal = args.at(-1);
        await lease.ensure(signal instanceof AbortSignal ? signal : new AbortController().signal);
        return Reflect.apply(member, target, args);
      };
    },
  });
}

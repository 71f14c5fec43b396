import type { Counter } from "prom-client";
import type { ContainerRuntime } from "./port.ts";

/** Returns a proxy of the runtime that counts each call under its name. */
export function withCallMetrics<R extends ContainerRuntime>(runtime: R, calls: Counter<"call">): R {
  return new Proxy(runtime, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        if (typeof property === "string") calls.inc({ call: property });
        return Reflect.apply(member, target, args);
      };
    },
  });
}

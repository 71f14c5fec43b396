import type { BusVariant } from "../../dbus/port.ts";
import type { OverlayStatus } from "./port.ts";

const s = (value: string): BusVariant => ({ signature: "s", value });
const u = (value: number): BusVariant => ({ signature: "u", value });
const t = (value: number): BusVariant => ({ signature: "t", value: BigInt(Math.trunc(value)) });
const b = (value: boolean): BusVariant => ({ signature: "b", value });
const as = (value: readonly string[]): BusVariant => ({ signature: "as", value });

/** GetStatus, each value with the type that the interface's file says. */
export function toStatusVariants(status: OverlayStatus): ReadonlyMap<string, BusVariant> {
  const variants: { readonly [Name in keyof OverlayStatus]: BusVariant } = {
    version: s(status.version),
    state: s(status.state),
    active: u(status.active),
    pending_confirmations: u(status.pending_confirmations),
    engine: s(status.engine),
    model: s(status.model),
    http_port: u(status.http_port),
    ledger_ok: b(status.ledger_ok),
    ledger_size: t(status.ledger_size),
    index_docs: u(status.index_docs),
    index_state: s(status.index_state),
    window_available: b(status.window_available),
    selection_available: b(status.selection_available),
    consent: as(status.consent),
    providers: as(status.providers),
    uptime_ms: t(status.uptime_ms),
  };
  return new Map(Object.entries(variants));
}

/** An error that the caller sees as it stands: its D-Bus name, and one line. */
export class BusReplyError extends Error {
  readonly busName: string;

  constructor(busName: StandardError, text: string) {
    super(text);
    this.name = "BusFault";
    this.busName = `org.freedesktop.DBus.Error.${busName}`;
  }
}

type StandardError =
  | "InvalidArgs"
  | "AccessDenied"
  | "UnknownMethod"
  | "UnknownInterface"
  | "UnknownObject"
  | "UnknownProperty"
  | "PropertyReadOnly"
  | "LimitsExceeded"
  | "NotSupported";

/** An error that is sent to the caller unchanged, with its D-Bus name and one line of text. */
export class BusReplyError extends Error {
  readonly busName: string;

  constructor(busName: StandardError, text: string) {
    super(text);
    this.name = "BusReplyError";
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

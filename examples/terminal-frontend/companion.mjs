// A client of the companion, for a frontend. It calls the interface Overlay1 on the session bus, and claims the
// frontend's own bus name.
import dbus from "dbus-next";

const OVERLAY = "dev.assistant.Overlay1";
const UI = "dev.assistant.Overlay1.UI";
const BUS = "org.freedesktop.DBus";
const INTROSPECTABLE = "org.freedesktop.DBus.Introspectable";
const pathOf = (name) => `/${name.replaceAll(".", "/")}`;

/** The description of the frontend's object, from dbus/interfaces/dev.assistant.Overlay1.UI.xml of Berth. */
const uiNode = `<node>
  <interface name="${UI}">
    <method name="Summon">
      <arg name="prompt" type="s" direction="in"/>
      <arg name="options" type="a{sv}" direction="in"/>
    </method>
    <method name="Hide"/>
    <method name="GetVisible">
      <arg name="visible" type="b" direction="out"/>
    </method>
  </interface>
  <interface name="${INTROSPECTABLE}">
    <method name="Introspect">
      <arg name="xml_data" type="s" direction="out"/>
    </method>
  </interface>
</node>`;

/**
 * Returns the introspection XML of the frontend's object, or of a node on the path to it; undefined
 * for any other path.
 */
function describeNode(path) {
  if (path === pathOf(UI)) return uiNode;
  const parent = path === "/" ? path : `${path}/`;
  if (!pathOf(UI).startsWith(parent)) return undefined;
  const [child] = pathOf(UI).slice(parent.length).split("/");
  return `<node><node name="${child}"/></node>`;
}

export const variant = (signature, value) => new dbus.Variant(signature, value);

export class Companion {
  onGone = () => {};
  /** Receives the ConfirmationNeeded signals of queries that other programs have started. */
  onQuestion = () => {};
  #bus;
  /** The unique bus name of the companion, such as :1.7. Signals of other senders are ignored. */
  #owner;
  #turns = new Map();
  /**
   * Holds D-Bus signals that arrive while a call of Ask has no reply, because only the reply contains the id of the new
   * query.
   */
  #early = [];
  #isAsking = false;

  /** Connects to the companion. Rejects if there is no session bus or no companion. */
  async connect() {
    const bus = dbus.sessionBus();
    this.#bus = bus;
    await new Promise((resolve, reject) => bus.once("connect", resolve).once("error", reject));
    bus.on("error", () => this.onGone());
    bus._connection.on("end", () => this.onGone()); // dbus-next emits no error when the bus closes the connection
    bus.on("message", (message) => this.#onMessage(message));
    // The client subscribes before the first query, so that no signal is missed.
    for (const rule of [
      `type='signal',sender='${OVERLAY}',interface='${OVERLAY}'`,
      `type='signal',sender='${BUS}',member='NameOwnerChanged',arg0='${OVERLAY}'`,
    ])
      await this.#call(BUS, "AddMatch", "s", [rule]);
    // This call makes the bus start the companion, if the bus has a service file for the companion.
    const { sender } = await this.#call(OVERLAY, "GetStatus");
    this.#owner = sender;
  }

  /** Starts a query. Each call of the query's `next` resolves to its next signal; the last signal is Finished. */
  async ask(prompt, options) {
    this.#isAsking = true;
    try {
      const { body } = await this.#call(OVERLAY, "Ask", "sa{sv}", [prompt, options]);
      const turn = new Turn(body[0]);
      this.#turns.set(turn.queryId, turn);
      this.#isAsking = false;
      for (const signal of this.#early.splice(0)) this.#onSignal(...signal);
      return turn;
    } finally {
      this.#isAsking = false;
    }
  }

  async cancel(queryId) {
    await this.#call(OVERLAY, "Cancel", "t", [queryId]);
  }

  /**
   * Answers a question of the query. `question` is the number of the question, because the query may already have asked
   * another question.
   */
  async respond(queryId, question, isApproved) {
    if (question === undefined) await this.#call(OVERLAY, "Respond", "tb", [queryId, isApproved]);
    else await this.#call(OVERLAY, "RespondTo", "tub", [queryId, question, isApproved]);
  }

  /**
   * Claims the frontend's bus name and answers the calls to it. Does not use `bus.export()` of dbus-next, because that
   * method sends stack traces to callers, and does not name the caller.
   */
  async serveWindow({ summon, hide }) {
    let isVisible = true;
    const methods = {
      Summon: (prompt) => {
        isVisible = true;
        summon(prompt);
      },
      Hide: () => {
        isVisible = false;
        hide();
      },
      GetVisible: () => isVisible,
    };
    this.#bus.addMethodHandler((message) => {
      if (message.interface === INTROSPECTABLE && message.member === "Introspect") {
        const xml = describeNode(message.path);
        if (xml === undefined) return false;
        this.#bus.send(dbus.Message.newMethodReturn(message, "s", [xml]));
        return true;
      }
      if (message.path !== pathOf(UI) || message.interface !== UI) return false;
      // Any program may call Summon: the frontend only shows the prompt, and only the user can send the prompt.
      const method = methods[message.member];
      if (method === undefined) return false;
      const answer = method(...message.body);
      const [signature, body] = answer === undefined ? ["", []] : ["b", [answer]];
      this.#bus.send(dbus.Message.newMethodReturn(message, signature, body));
      return true;
    });
    const reply = await this.#bus.requestName(UI, dbus.NameFlag.DO_NOT_QUEUE);
    if (reply !== dbus.RequestNameReply.PRIMARY_OWNER)
      throw new Error("another frontend runs already");
  }

  close() {
    this.onGone = () => {};
    this.#bus?.disconnect();
  }

  #call(name, member, signature = "", body = []) {
    const path = pathOf(name);
    return this.#bus.call(
      new dbus.Message({ destination: name, path, interface: name, member, signature, body }),
    );
  }

  #onMessage(message) {
    if (message.type !== dbus.MessageType.SIGNAL) return;
    if (message.sender === BUS && message.member === "NameOwnerChanged") {
      if (message.body[0] === OVERLAY && this.#owner !== undefined) this.onGone();
    } else if (message.sender === this.#owner && message.interface === OVERLAY)
      this.#onSignal(message.member, message.body);
  }

  #onSignal(member, body) {
    const [queryId, value, detail] = body;
    const turn = this.#turns.get(queryId);
    if (turn === undefined) {
      if (this.#isAsking) this.#early.push([member, body]);
      else if (member === "ConfirmationNeeded") this.onQuestion(queryId, JSON.parse(value));
      return;
    }
    if (member === "Finished") this.#turns.delete(queryId);
    turn.add({ member, value, detail });
  }
}

class Turn {
  queryId;
  #signals = [];
  #wake;

  constructor(queryId) {
    this.queryId = queryId;
  }

  add(signal) {
    this.#signals.push(signal);
    this.#wake?.();
  }

  async next() {
    await this.arrival();
    return this.#signals.shift();
  }

  /** Resolves when `next` can return a D-Bus signal of this query at once. */
  async arrival() {
    while (this.#signals.length === 0)
      await new Promise((resolve) => {
        const before = this.#wake;
        this.#wake = () => {
          before?.();
          resolve();
        };
      });
    this.#wake = undefined;
  }
}

"""What writes, sends or costs too much waits for a card; a decision is for one call, once, ten minutes."""

from __future__ import annotations

import pytest

from database import Database
from models.audit import list_entries
from tests.api_server import Api, Person
from tests.assistant.chatting import ROOT, Chat, names, said, the
from tests.assistant.model_server import Call, Model, Say, call
from tests.automations.workflows import create

STEPS = [{"id": "greet", "type": "transform", "config": {"expression": "'hello'"}}]
LIST = {"name": "Name servers", "type": "ip", "targets": ["8.8.8.8"]}
IP = "193.0.6.139"


async def count_lists(person: Person) -> int:
    return len((await person.session.get("/api/lists")).json())


async def test_a_write_is_done_after_approval_and_recorded_as_of_the_chat(
    api: Api, chat: Chat, model: Model
) -> None:
    model.script = [call("create_workflow", definition={"name": "Greeter", "steps": STEPS}), Say("Done.")]
    message = await chat.send("Make a workflow that greets")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        assert card["arguments"] == {"definition": {"name": "Greeter", "steps": STEPS}}
        assert card["reasons"] == ["writes"] and card["tool"] == "create_workflow"
        assert [node["id"] for node in card["preview"]["graph"]["nodes"]] == ["greet"]
        assert {one["field"] for one in card["preview"]["diff"]} == {"name", "steps"}
        workflows = (await chat.person.session.get("/api/workflows")).json()
        assert workflows["total"] == 0
        assert (await chat.get())["messages"][0]["status"] == "waiting"
        decided = await chat.decide(card, "approve")
        assert decided.status_code == 200, decided.text
        events = await stream.all()
    assert the(events, "decision")["decision"] == "approve" and events[-1].data["status"] == "completed"
    [made] = (await chat.person.session.get("/api/workflows")).json()["workflows"]
    assert made["name"] == "Greeter"
    async with api.services.database.connection() as connection:
        audit = await list_entries(connection, chat.person.account.id)
    assert {one.source for one in audit if one.action == "workflow.created"} == {"chat"}
    assert {one.source for one in audit if one.action == "chat.approved"} == {"api"}


async def test_a_denied_call_is_not_made_and_the_model_is_told(chat: Chat, model: Model) -> None:
    model.script = [call("create_contact_list", **LIST), Say("As you wish.")]
    message = await chat.send("Make a list")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        assert (await chat.decide(card, "deny")).status_code == 200
        events = await stream.all()
    assert the(events, "result")["refused"] and said(events) == "As you wish."
    assert "denied" in model.results()[0]
    assert await count_lists(chat.person) == 0


async def test_a_person_can_put_in_other_arguments(chat: Chat, model: Model) -> None:
    model.script = [call("create_contact_list", **LIST), Say("Done.")]
    message = await chat.send("Make a list")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        wrong = await chat.decide(card, "approve", arguments={**LIST, "type": "planet"})
        assert wrong.status_code == 400 and wrong.json()["errors"][0]["pointer"] == "/arguments/type"
        assert (await chat.decide(card, "deny", arguments=LIST)).status_code == 400
        assert (await chat.decide(card, "approve", arguments={**LIST, "name": "Mine"})).status_code == 200
        events = await stream.all()
    assert the(events, "decision")["arguments"]["name"] == "Mine"
    assert [one["name"] for one in (await chat.person.session.get("/api/lists")).json()] == ["Mine"]


async def test_a_decision_counts_once_and_for_its_own_arguments_and_account(
    api: Api, chat: Chat, model: Model
) -> None:
    model.script = [call("create_contact_list", **LIST), Say("Done.")]
    message = await chat.send("Make a list")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        stranger = Chat(await api.person(), chat.id)
        assert (await stranger.decide(card, "approve")).status_code == 404
        other = await chat.decide(card | {"arguments_hash": "0" * 64}, "approve")
        assert (other.status_code, other.json()["code"]) == (409, "approval_over")
        elsewhere = await Chat.begin(chat.person)
        assert (await elsewhere.decide(card, "approve")).status_code == 404
        assert (await chat.decide(card, "approve")).status_code == 200
        again = await chat.decide(card, "approve")
        assert (again.status_code, again.json()["code"]) == (409, "approval_over")
        await stream.all()
    assert await count_lists(chat.person) == 1


async def test_an_approval_ends_after_ten_minutes_and_with_its_message(
    chat: Chat, model: Model, database: Database
) -> None:
    model.script = [call("create_contact_list", **LIST), Say("Nobody has answered.")]
    message = await chat.send("Make a list")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select extract(epoch from expires_at - clock_timestamp()) as left from chat_approvals"
                " where id = %s",
                (card["id"],),
            )
            row = await cursor.fetchone()
            assert row is not None and 590 < row["left"] <= 600
            await connection.execute(
                "update chat_approvals set expires_at = clock_timestamp() where id = %s", (card["id"],)
            )
        late = await chat.decide(card, "approve")
        assert (late.status_code, late.json()["code"]) == (409, "approval_over")
        ended = await chat.person.session.post(f"{chat.path}/messages/{message}/cancel")
        assert ended.json()["status"] == "cancelled"
    over = await chat.decide(card, "approve")
    assert over.json()["code"] == "approval_over" and await count_lists(chat.person) == 0


async def test_approvals_are_asked_for_one_by_one(chat: Chat, model: Model) -> None:
    model.script = [
        Call(
            [("create_contact_list", {**LIST, "name": "a"}), ("create_contact_list", {**LIST, "name": "b"})]
        ),
        Say("Done."),
    ]
    message = await chat.send("Make two lists")
    async with chat.follow(message) as stream:
        first = await chat.find_card(stream)
        assert await count_lists(chat.person) == 0
        await chat.decide(first, "approve")
        second = await chat.find_card(stream)
        assert first["arguments"]["name"] == "a" and second["arguments"]["name"] == "b"
        await chat.decide(second, "deny")
        await stream.all()
    assert [one["name"] for one in (await chat.person.session.get("/api/lists")).json()] == ["a"]


async def test_a_mended_workflow_is_shown_as_a_diff(chat: Chat, model: Model) -> None:
    made = await create(chat.person, name="Greeter", steps=STEPS)
    steps = [{**STEPS[0], "config": {"expression": "'good day'"}}]
    arguments = {"workflow_id": made["id"], "base_version": 1, "changes": {"steps": steps}}
    model.script = [call("update_workflow", **arguments), Say("Mended.")]
    message = await chat.send("Mend it")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        [change] = card["preview"]["diff"]
        assert change["field"] == "steps" and card["preview"]["workflow"] == "Greeter"
        assert change["old"][0]["config"]["expression"] == "'hello'"
        assert change["new"][0]["config"]["expression"] == "'good day'"
        await chat.decide(card, "approve")
        await stream.all()
    found = (await chat.person.session.get(f"/api/workflows/{made['id']}")).json()
    assert found["version"] == 2


async def test_a_workflow_with_errors_asks_nobody_and_the_model_learns_why(chat: Chat, model: Model) -> None:
    steps = [{"id": "a", "type": "transfrom", "config": {}}]
    model.script = [call("create_workflow", definition={"name": "x", "steps": steps}), Say("I see.")]
    events = await chat.ask("Make a workflow")
    assert "approval" not in names(events) and the(events, "result")["refused"]
    assert "transfrom" in model.results()[0] or "/steps/0/type" in model.results()[0]


async def test_a_monitor_is_shown_with_its_cost_and_pace(chat: Chat, model: Model) -> None:
    monitor = {"name": "DNS", "type": "ip", "targets": ["8.8.8.8", "1.1.1.1"], "frequency": "daily"}
    model.script = [call("create_monitor", **monitor), Say("Watching.")]
    message = await chat.send("Watch the name servers")
    async with chat.follow(message) as stream:
        card = await chat.find_card(stream)
        assert card["preview"]["credits_per_run"] == 2 and len(card["preview"]["next_runs"]) == 5
        await chat.decide(card, "deny")
        await stream.all()


async def test_a_paid_lookup_runs_within_the_budget_and_waits_beyond_it(person: Person, model: Model) -> None:
    paid = call("lookup_phone", phone="+14155552671")
    rich, poor = await Chat.begin(person, credit_budget=5), await Chat.begin(person, credit_budget=0)
    model.script = [paid, Say("Found.")]
    events = await rich.ask("Whose number is this?")
    assert "approval" not in names(events) and the(events, "result")["credits"] == 1
    assert (await rich.get())["credits_used"] == 1
    model.script = [paid, Say("Found.")]
    async with poor.follow(await poor.send("Whose number is this?")) as stream:
        card = await poor.find_card(stream)
        assert card["reasons"] == ["budget"] and card["credits_max"] == 1
        await poor.decide(card, "deny")
        await stream.all()
    assert (await poor.get())["credits_used"] == 0


async def test_after_text_from_outside_each_lookup_waits_but_reads_of_the_account_do_not(
    chat: Chat, model: Model
) -> None:
    model.script = [
        Call([("lookup_ip", {"ip": IP}), ("lookup_ip", {"ip": "8.8.8.8"})]),
        call("get_credits"),
        call("lookup_ip", ip="1.1.1.1"),
        Say("Done."),
    ]
    message = await chat.send("What are these?")
    async with chat.follow(message) as stream:
        before = list[str]()
        while (event := await stream.next()) and event.name != "approval":
            before.append(event.name)
        assert event is not None and event.data["reasons"] == ["outside_text"]
        # Both of the first answer were chosen before anything was read.
        assert before.count("result") == 3
        assert event.data["arguments"] == {"ip": "1.1.1.1"}
        await chat.decide(event.data, "deny")
        await stream.all()
    assert (await chat.get())["tainted"] is True
    # It stays so in later messages.
    model.script = [call("lookup_ip", ip="1.1.1.1"), Say("Done.")]
    async with chat.follow(await chat.send("And this?")) as stream:
        await chat.decide(await chat.find_card(stream), "deny")
        await stream.all()


async def test_workflows_hidden_from_agents_and_resume_urls_stay_hidden(chat: Chat, model: Model) -> None:
    hidden = await create(chat.person, name="Secret plan", agents=False)
    model.script = [
        Call([("list_workflows", {}), ("get_workflow", {"workflow_id": hidden["id"]})]), Say("Nothing."),
    ]  # fmt: skip
    await chat.ask("What is there?")
    listed, read = model.results()
    assert "Secret plan" not in listed and "not_found" in read


@pytest.mark.parametrize("path", ["", "/messages/{id}/events"])
async def test_other_accounts_find_nothing(api: Api, chat: Chat, model: Model, path: str) -> None:
    model.script = [Say("Hello.")]
    message = await chat.send("Hello")
    await chat.read(message)
    stranger = await api.person()
    found = await stranger.session.get(f"{ROOT}/conversations/{chat.id}{path.format(id=message)}")
    assert found.status_code == 404

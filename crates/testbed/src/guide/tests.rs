use super::*;

const GUIDE: &str = "\
# First
```sh
greeting=hello
mkdir below && cd below
```
## Second
- in a list:
  ```sh
  echo \"$greeting   from ${PWD##*/}\"
  ```
```text printed
hello from …low
```
```sh refused
false; echo never
```
```yaml part
a: [1
```
";

async fn follow(text: &str) -> Result<Shell, Error> {
    let guide = Guide::parse("guide.md", text).unwrap();
    let mut shell = Shell::new().unwrap();
    for block in guide.blocks() {
        shell.follow(block).await?;
    }
    Ok(shell)
}

#[tokio::test]
async fn blocks_follow_one_another() {
    let error = follow(GUIDE).await.err().unwrap();
    assert!(error.to_string().starts_with("guide.md:17: "), "{error}");
    let guide = Guide::parse("guide.md", GUIDE).unwrap();
    assert_eq!(guide.under("Second").count(), 4);
    assert!(guide.blocks()[1].text.starts_with("echo"));
}

#[tokio::test]
async fn what_the_guide_says_must_happen() {
    for (guide, complaint) in [
        ("```sh\nfalse\necho here\n```\n", "exit status: 1"),
        ("```sh refused\ntrue\n```\n", "exit status: 0"),
        (
            "```sh\necho one\n```\n```text printed\ntwo\n```\n",
            "\"two\" was not printed",
        ),
        ("```toml\na = 1\n```\n", "unknown fence"),
        ("```json\n{\n```\n", "EOF"),
    ] {
        let error = follow(guide).await.err().unwrap().to_string();
        assert!(error.contains(complaint), "{guide}: {error}");
    }
    assert!(Guide::parse("guide.md", "```sh\n").is_err());
}

#[tokio::test]
async fn programs_are_stood_in_for_and_texts_replaced() {
    let text = "```sh\ndocker push registry.example/it\nls deploy/Dockerfile\n```\n";
    let guide = Guide::parse("guide.md", text).unwrap();
    let mut shell = Shell::new().unwrap();
    shell
        .stand_in("docker", "[ \"$*\" = 'push here/it' ]")
        .unwrap();
    shell.replace("registry.example", "here");
    shell.follow_all(guide.blocks()).await.unwrap();
    assert_eq!(shell.output(), "deploy/Dockerfile\n");
}

#[test]
fn lines_match_by_words() {
    for (expected, said, does) in [
        ("a  b", "a b", true),
        ("a b", "a b c", false),
        ("a … c", "a b b c", true),
        ("main@sha1:5394…   x", "main@sha1:53940 x", true),
        ("a … c", "a b b d", false),
        ("…c", "abc", true),
    ] {
        assert_eq!(matches(expected, said), does, "{expected} {said}");
    }
}

#[tokio::test]
async fn variables_are_those_that_were_set_last() {
    let mut shell = Shell::new().unwrap();
    shell.set("A", "it's");
    assert_eq!(shell.sh("echo $A; A=two").await.unwrap(), "it's\n");
    assert_eq!(shell.sh("echo $A").await.unwrap(), "two\n");
    shell.set("A", "three");
    let guide = "```sh background\nsh -c 'echo $A >> said; exec sleep 1000'\n```\n";
    let guide = Guide::parse("guide.md", guide).unwrap();
    shell.follow_all(guide.blocks()).await.unwrap();
    let wait = "until grep three said; do sleep 0.1; done 2>/dev/null";
    assert_eq!(shell.sh(wait).await.unwrap(), "three\n");
}

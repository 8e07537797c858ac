import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import expect, main, read

WANTED = """\
email,name,phone,joined
ada.okafor@example.org,Ada Okafor,+4930123456,2021-02-03
bo@example.com,Bo Lindqvist,+46855502,2020-02-29
chen.wei@example.net,Chen Wei,5550199,2019-12-31
eva@example.hu,"Éva ""Evi"" Nagy",,2018-07-04
grace@navy.example.mil,Grace H.,555010,
iris@example.kr,Iris Kim,822100,2003-01-02
"""


def check(workspace):
    found = read(f"{workspace}/clean.csv")
    for number, (line, wanted) in enumerate(zip(found.split("\n"), WANTED.split("\n")), 1):
        expect(f"line {number}", line, wanted)
    expect("the whole file", found, WANTED)


main(check)
